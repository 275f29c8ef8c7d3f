"""Who may lead and who is eligible, as Kafka 4's ``PartitionChangeBuilder`` decides it."""

import pytest

from tidelog.core.controller.eligible_leaders import Circumstances, NextState, next_state
from tidelog.core.reasons import ElectionKind
from tidelog.core.types import NO_LEADER, BrokerId, ControllerEpoch, LeaderEpoch, PartitionState


def brokers(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def state(
    leader: int, isr: tuple[int, ...], elr: tuple[int, ...] = (), last: tuple[int, ...] = ()
) -> PartitionState:
    return PartitionState(
        BrokerId(leader),
        LeaderEpoch(5),
        brokers(*isr),
        ControllerEpoch(1),
        elr=brokers(*elr),
        last_known_elr=brokers(*last),
    )


def given(*acceptable: int, min_isr: int = 2, tracked: bool = True, unclean: bool = False) -> Circumstances:
    return Circumstances(brokers(0, 1, 2), brokers(*acceptable), min_isr, tracked, unclean)


Seen = tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...], ElectionKind | None]


def seen(outcome: NextState | None) -> Seen | None:
    """(leader, leader epoch, ISR, ELR, last known, kind)"""
    if outcome is None:
        return None
    now = outcome.state
    return now.leader, now.leader_epoch, now.isr, now.elr, now.last_known_elr, outcome.kind


def test_a_follower_leaves_and_enough_remain() -> None:
    """No epoch is raised, and no replica is eligible while the ISR is large enough."""
    assert seen(next_state(state(0, (0, 1, 2)), brokers(0, 2), given(0, 2))) == (0, 5, (0, 2), (), (), None)


def test_a_follower_leaves_and_too_few_remain() -> None:
    """Those that leave are eligible from then on."""
    assert seen(next_state(state(0, (0, 2)), brokers(0), given(0))) == (0, 5, (0,), (2,), (), None)
    assert seen(next_state(state(0, (0, 1, 2)), brokers(0), given(0))) == (0, 5, (0,), (1, 2), (), None)


def test_the_last_leader_leaves() -> None:
    """The ISR is empty, and the field for the last known leader holds it."""
    outcome = next_state(state(0, (0,), elr=(2,)), (), given())
    assert seen(outcome) == (NO_LEADER, 6, (), (0, 2), (0,), None)


def test_without_the_feature_the_last_member_stays() -> None:
    """eligible.leader.replicas.version=0: no leader, but the ISR keeps the only replica that may return."""
    assert seen(next_state(state(0, (0,)), (), given(tracked=False))) == (NO_LEADER, 6, (0,), (), (), None)
    back = next_state(state(-1, (0,)), brokers(0), given(0, tracked=False))
    assert seen(back) == (0, 6, (0,), (), (), ElectionKind.CLEAN)


def test_the_leader_leaves() -> None:
    """The first assigned replica in the ISR leads, not the first of the ISR."""
    outcome = next_state(state(0, (2, 1, 0)), brokers(2, 1), given(1, 2))
    assert seen(outcome) == (1, 6, (2, 1), (), (), ElectionKind.CLEAN)


def test_an_eligible_replica_returns() -> None:
    """It leads alone; the others stay eligible, and there is no last known leader any more."""
    outcome = next_state(state(-1, (), elr=(0, 2), last=(0,)), (), given(2))
    assert seen(outcome) == (2, 6, (2,), (0,), (), ElectionKind.ELIGIBLE)


def test_eligible_replicas_wait_while_the_isr_is_not_empty() -> None:
    """A member of the ISR is away: an eligible replica may not lead in its place."""
    assert next_state(state(-1, (0,), elr=(2,)), brokers(0), given(2)) is None


def test_an_unclean_shutdown_ends_eligibility() -> None:
    """The returning broker is not eligible any more; the last known leader stays known."""
    outcome = next_state(state(-1, (), elr=(0, 2), last=(0,)), (), given(), BrokerId(2))
    assert seen(outcome) == (NO_LEADER, 5, (), (0,), (0,), None)


def test_the_last_known_leader_is_the_last_resort() -> None:
    """It leads only if none is eligible, and only if it is alive (KAFKA-19522); then it is recovering."""
    assert next_state(state(-1, (), elr=(1,), last=(0,)), (), given(0)) is None
    assert next_state(state(-1, (), last=(0,)), (), given(1, 2)) is None
    outcome = next_state(state(-1, (), last=(0,)), (), given(0, 1, 2))
    assert seen(outcome) == (0, 6, (0,), (), (), ElectionKind.LAST_KNOWN_LEADER)
    assert outcome is not None
    assert outcome.state.recovering


def test_an_unclean_election_comes_after_all_others() -> None:
    """Only if neither the ISR, nor the eligible, nor the last known leader can lead; it clears the ELR."""
    outcome = next_state(state(-1, (), elr=(0,), last=(0,)), (), given(1, unclean=True))
    assert seen(outcome) == (1, 6, (1,), (), (), ElectionKind.UNCLEAN)
    outcome = next_state(state(-1, (), last=(2,)), (), given(1, 2, unclean=True))
    assert seen(outcome) == (2, 6, (2,), (), (), ElectionKind.LAST_KNOWN_LEADER)


@pytest.mark.parametrize("isr", [(2, 0), (2, 0, 1)])
def test_the_isr_is_large_enough_again(isr: tuple[int, ...]) -> None:
    """No replica is eligible any more."""
    assert seen(next_state(state(2, (2,), elr=(0,)), brokers(*isr), given(0, 1, 2))) == (
        2,
        5,
        isr,
        (),
        (),
        None,
    )


def test_nothing_changes() -> None:
    """No write without a change: the partition epoch would rise."""
    assert next_state(state(0, (0, 1)), brokers(0, 1), given(0, 1)) is None
