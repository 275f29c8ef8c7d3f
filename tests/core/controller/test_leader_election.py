"""Who leads: Kafka's four strategies as tables (Kafka 2.7's partition state machine)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.harness import ids

from tidelog.core.controller.leader_election import (
    LeaderChoice,
    first_leader,
    offline_leader,
    preferred_leader,
    shutdown_leader,
)
from tidelog.core.reasons import ElectionKind
from tidelog.core.types import BrokerId, ControllerEpoch, LeaderEpoch, PartitionState

Ids = tuple[int, ...]
Leads = tuple[int, Ids] | None
NO_LEADER = None


def made(leads: Leads, kind: ElectionKind) -> LeaderChoice | None:
    return None if leads is None else LeaderChoice(BrokerId(leads[0]), ids(leads[1]), kind)


def state(isr: Ids, leader: int = 0) -> PartitionState:
    return PartitionState(BrokerId(leader), LeaderEpoch(5), ids(isr), ControllerEpoch(1))


@pytest.mark.parametrize(
    ("assignment", "live", "choice", "reason"),
    [
        ((0, 1, 2), (0, 1, 2), (0, (0, 1, 2)), "the first assigned leads, all are in sync"),
        ((2, 0, 1), (0, 1, 2), (2, (2, 0, 1)), "the order is the assignment's, not the numbers'"),
        ((0, 1, 2), (2, 1), (1, (1, 2)), "the dead are passed over, and are not in sync"),
        ((0, 1), (2, 3), NO_LEADER, "no assigned replica is alive"),
        ((0, 1), (), NO_LEADER, "no broker is alive"),
    ],
)
def test_new_partition(assignment: Ids, live: Ids, choice: Leads, reason: str) -> None:
    """New → Online: the first live replica leads; all live ones are in sync, for they are all empty."""
    assert first_leader(ids(assignment), ids(live)) == choice, reason


@pytest.mark.parametrize(
    ("assignment", "isr", "live", "choice", "reason"),
    [
        ((0, 1, 2), (0, 1, 2), (1, 2), (1, (1, 2)), "the dead leader leaves the ISR with the election"),
        ((0, 1, 2), (2, 1, 0), (1, 2), (1, (2, 1)), "assignment order elects; the ISR keeps its own order"),
        ((0, 2, 1), (0, 1, 2), (1, 2), (2, (1, 2)), "the first assigned, not the first of the ISR"),
        ((0, 1, 2), (0, 2), (1, 2), (2, (2,)), "alive is not enough: 1 is not in sync"),
        ((0, 1, 2), (0,), (1, 2), NO_LEADER, "no live replica is in sync: offline"),
        ((0, 1, 2), (0, 1), (), NO_LEADER, "no broker is alive"),
        ((0, 1), (0, 1), (0, 1), (0, (0, 1)), "a leader that is back may lead again"),
    ],
)
def test_clean_election(assignment: Ids, isr: Ids, live: Ids, choice: Leads, reason: str) -> None:
    """Offline → Online: the first *assigned* replica that is alive and in sync; the ISR keeps the live."""
    assert offline_leader(ids(assignment), state(isr), ids(live), unclean=False) == made(
        choice, ElectionKind.CLEAN
    ), reason


@pytest.mark.parametrize(
    ("assignment", "isr", "live", "choice", "reason"),
    [
        ((0, 1, 2), (0,), (1, 2), (1, (1,)), "the first live one, alone in the ISR"),
        ((0, 2, 1), (0,), (1, 2), (2, (2,)), "in assignment order"),
        ((0, 1, 2), (0, 2), (1, 2), (2, (2,)), "an in-sync replica goes first, even when losing is allowed"),
        ((0, 1, 2), (0,), (), NO_LEADER, "no broker is alive"),
        ((0, 1), (0,), (2, 3), NO_LEADER, "no live broker holds the partition"),
    ],
)
def test_unclean_election(assignment: Ids, isr: Ids, live: Ids, choice: Leads, reason: str) -> None:
    """Only where the topic allows it and no in-sync replica is alive: the first live one, ISR = {it}."""
    in_sync = choice is not None and choice[0] in isr
    kind = ElectionKind.CLEAN if in_sync else ElectionKind.UNCLEAN
    assert offline_leader(ids(assignment), state(isr), ids(live), unclean=True) == made(choice, kind), reason


@pytest.mark.parametrize(
    ("assignment", "isr", "live", "choice", "reason"),
    [
        ((0, 1, 2), (1, 2, 0), (0, 1, 2), (0, (1, 2, 0)), "back to the first; the ISR stays, order and all"),
        ((0, 1, 2), (1, 2), (0, 1, 2), NO_LEADER, "it has not caught up"),
        ((0, 1, 2), (1, 2, 0), (1, 2), NO_LEADER, "it is not alive"),
        ((0, 1, 2), (0, 1, 2), (0,), (0, (0, 1, 2)), "the dead in the ISR are not its business"),
    ],
)
def test_preferred_election(assignment: Ids, isr: Ids, live: Ids, choice: Leads, reason: str) -> None:
    """The first assigned replica or none."""
    found = preferred_leader(ids(assignment), state(isr, leader=1), ids(live))
    assert found == made(choice, ElectionKind.PREFERRED), reason


@pytest.mark.parametrize(
    ("isr", "live", "leaving", "choice", "reason"),
    [
        ((0, 1, 2), (1, 2), (0,), (1, (1, 2)), "the leaving leader is out of the ISR at once"),
        ((0, 2), (1, 2), (0,), (2, (2,)), "only in-sync replicas"),
        ((0, 1, 2), (2,), (0, 1), (2, (2,)), "two leave together"),
        ((0, 1), (2,), (0,), NO_LEADER, "the only other member is dead"),
        ((0,), (1, 2), (0,), NO_LEADER, "no other is in sync: it stays leader until it is gone"),
    ],
)
def test_controlled_shutdown(isr: Ids, live: Ids, leaving: Ids, choice: Leads, reason: str) -> None:
    """Leadership moves to the first in-sync replica that stays, in assignment order."""
    found = shutdown_leader(ids((0, 1, 2)), state(isr), ids(live), ids(leaving))
    assert found == made(choice, ElectionKind.CONTROLLED_SHUTDOWN), reason


brokers = st.lists(st.sampled_from(range(5)), unique=True, max_size=5).map(tuple)


@given(assignment=brokers.filter(len), isr=brokers, live=brokers, unclean=st.booleans())
def test_an_elected_leader_is_alive_assigned_and_in_the_new_isr(
    assignment: Ids, isr: Ids, live: Ids, unclean: bool
) -> None:
    """Whatever the lists: a clean choice is a member of the old ISR, any choice is alive and assigned, and
    the new ISR holds the leader, no dead replica, and no new member except an unclean leader."""
    members = tuple(broker for broker in isr if broker in assignment)
    choice = offline_leader(ids(assignment), state(members), ids(live), unclean=unclean)
    electable = [b for b in assignment if b in live and b in members]
    if choice is None:
        assert not electable
        assert not (unclean and set(assignment) & set(live))
        return
    leader, new_isr, kind = choice
    assert kind is (ElectionKind.CLEAN if electable else ElectionKind.UNCLEAN)
    assert leader in assignment
    assert leader in live
    assert leader in new_isr
    assert set(new_isr) <= set(live)
    if electable:
        assert leader == electable[0]
        assert set(new_isr) <= set(members)
    else:
        assert unclean
        assert new_isr == (leader,)
