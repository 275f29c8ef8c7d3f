"""The controller's state machines: what raises a leader epoch and what does not, and who is fenced.

The epochs are those of real clusters of Kafka 2.7.1; here each rule has a story of a few lines.
"""

import pytest
from tests.core.harness import CONTROLLER, TP, Bench, ids
from tests.lab.stories import THREE, TWO, after, happenings, play, state, values, written

from tidelog.core.events import ControlRequestRefused
from tidelog.core.messages import (
    ControlResponse,
    LeaderAndIsrRequest,
    PartitionAssignment,
    UpdateMetadataRequest,
)
from tidelog.core.reasons import ElectionKind, StateWriteReason
from tidelog.core.types import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionState
from tidelog.wire.errors import ErrorCode

ISR_GENERATIONS = ("hw", "kip101", "epoch")


# ---------------------------------------------------------------- what raises the leader epoch


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_a_dead_follower_costs_one_epoch(generation: str) -> None:
    """The controller takes it out of the ISR, and every write of the controller adds one."""
    story = play(THREE, "crash 1\nwait unregistered 1", generation)
    assert written(story) == [(0, 1, [0, 2], StateWriteReason.REPLICA_OFFLINE, 1)]
    assert state(story) == (0, 1, [0, 2])


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_a_dead_leader_costs_one_epoch_if_the_controller_is_elsewhere(generation: str) -> None:
    """The election itself drops it from the ISR, so the replica machine finds nothing left to remove."""
    story = play(THREE, "crash 0\nwait unregistered 0", generation)
    assert written(story) == [(1, 1, [1, 2], ElectionKind.CLEAN, None)]


def test_leader_and_controller_together_cost_two_epochs() -> None:
    """A new controller runs the replica machine first (no leader, +1), then elects (+1)."""
    head = THREE.replace("controller=2", "controller=0")
    story = play(head, "crash 0\nwait unregistered 0", "epoch")
    assert written(story) == [
        (-1, 1, [1, 2], StateWriteReason.REPLICA_OFFLINE, 0),
        (1, 2, [1, 2], ElectionKind.CLEAN, None),
    ]


@pytest.mark.parametrize("generation", ["hw", "kip101"])
def test_before_2_0_they_cost_one(generation: str) -> None:
    """A new controller left the replicas of dead brokers alone (KAFKA-3143)."""
    head = THREE.replace("controller=2", "controller=0")
    story = play(head, "crash 0\nwait unregistered 0", generation)
    assert written(story) == [(1, 1, [1, 2], ElectionKind.CLEAN, None)]


@pytest.mark.parametrize("generation", ["hw", "kip101"])
def test_before_2_0_a_follower_that_dies_with_its_office_is_dropped_by_the_leader(generation: str) -> None:
    """The successor does not touch the ISR; the leader shrinks it after the lag time, in the same epoch."""
    story = play(THREE, "crash 2\nwait isr 0,1", generation)
    assert written(story) == [(0, 0, [0, 1], StateWriteReason.ISR_WRITTEN, None)]


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_a_dead_controller_costs_nothing(generation: str) -> None:
    """It held no replica: another broker takes over and changes nothing."""
    story = play(TWO, "crash 2\nwait controller 0", generation)
    assert written(story) == []
    assert (story.final.controller, story.final.controller_epoch) == (0, 2)


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_the_last_member_stays_listed_and_the_epoch_rises(generation: str) -> None:
    """No candidate is left: leader −1, the ISR keeps the replica that has all records, one more epoch."""
    story = play(TWO, "crash 1\nwait isr 0\ncrash 0\nwait leader none", generation)
    assert written(story) == [
        (0, 1, [0], StateWriteReason.REPLICA_OFFLINE, 1),
        (-1, 2, [0], StateWriteReason.REPLICA_OFFLINE, 0),
    ]
    assert any("finds no leader" in line for line in happenings(story))


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_a_change_of_the_isr_by_its_leader_costs_nothing(generation: str) -> None:
    """Lagging out and catching up again happen within the epoch."""
    steps = """
        cut broker-0 broker-1
        send p a
        wait isr 0,2 within 60s
        heal
        wait isr 0,1,2
    """
    story = play(THREE, steps, generation)
    assert [(leader, epoch, sorted(isr)) for leader, epoch, isr, *_ in written(story)] == [
        (0, 0, [0, 2]),
        (0, 0, [0, 1, 2]),
    ]


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_the_return_of_a_broker_costs_nothing(generation: str) -> None:
    """It receives the current state; the leader adds it to the ISR within the epoch."""
    story = play(THREE, "crash 1\nwait unregistered 1\nrestart 1\nwait isr 0,1,2", generation)
    assert after(story, "restart 1").after.live_brokers == (0, 1, 2)
    assert [epoch for _, epoch, *_ in written(story)] == [1, 1]
    assert state(story) == (0, 1, [0, 2, 1])


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_the_preferred_election_costs_one_epoch_and_keeps_the_isr(generation: str) -> None:
    """Back to the first assigned replica; the order of the ISR tells who came back last."""
    steps = """
        crash 0
        wait leader 1
        restart 0
        wait isr 0,1,2
        elect-preferred
        wait leads 0
    """
    story = play(THREE, steps, generation)
    assert written(story)[-1] == (0, 2, [1, 2, 0], ElectionKind.PREFERRED, None)


def test_a_preferred_election_that_is_not_needed_or_not_possible_writes_nothing() -> None:
    """The preferred replica leads already; or it is not in sync."""
    assert written(play(THREE, "elect-preferred\nadvance 1s")) == []
    story = play(THREE, "crash 0\nwait leader 1\nelect-preferred\nadvance 1s")
    assert written(story) == [(1, 1, [1, 2], ElectionKind.CLEAN, None)]


def test_an_unclean_election_waits_for_permission() -> None:
    """The topic's setting, changed while the partition is offline, elects at once: epoch 3 as in 2.7.1."""
    steps = """
        crash 1
        wait isr 0
        crash 0
        wait leader none
        restart 1
        advance 5s
        configure t unclean.leader.election.enable=true
    """
    story = play(TWO, steps)
    assert state(after(story, "advance 5s")) == (-1, 2, [0])
    assert written(story)[-1] == (1, 3, [1], ElectionKind.UNCLEAN, None)


def test_assignment_order_elects_not_isr_order() -> None:
    """The ISR is [1,2,0] when 1 leads and dies; 0 is first in the assignment."""
    steps = """
        crash 0
        wait leader 1
        restart 0
        wait isr 0,1,2
        crash 1
        wait unregistered 1
    """
    assert state(play(THREE, steps)) == (0, 2, [2, 0])


def test_majority_deposes_before_it_elects() -> None:
    """Two writes, two epochs: no leader while the votes come in, then the longest log of a majority."""
    story = play(THREE, "crash 0\nwait leader 1", "majority")
    assert written(story) == [
        (-1, 1, [0, 1, 2], StateWriteReason.BALLOT_OPENED, None),
        (1, 2, [0, 1, 2], ElectionKind.MAJORITY, None),
    ]


def test_majority_elects_nobody_without_a_majority() -> None:
    """One of three cannot know what the others had: offline, however long its log is."""
    story = play(THREE, "crash 0 1\nadvance 60s\nrestart 1\nadvance 10s", "majority")
    assert state(after(story, "advance 60s"))[0] == -1
    assert state(story)[0] == 1


# ---------------------------------------------------------------- orderly shutdown


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_a_leader_that_stops_hands_over_first(generation: str) -> None:
    """The election removes it from the ISR and costs one epoch, without waiting for a session to expire. (It
    still fetches for a moment, so under 0.10 it may rejoin the ISR before it stops.)"""
    story = play(THREE, "produce p a\nwait knows 2 a\nstop 0\nproduce p b", generation)
    stopped = after(story, "stop 0")
    assert written(stopped)[0] == (1, 1, [1, 2], ElectionKind.CONTROLLED_SHUTDOWN, 0)
    assert (state(stopped)[0], state(stopped)[2]) == (1, [1, 2])
    assert stopped.after.live_brokers == (1, 2)
    assert stopped.after.at_ms < 2_000
    assert story.verdict.held
    assert values(story, 1) == "a b"


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_a_follower_that_stops_leaves_the_isr(generation: str) -> None:
    """The controller takes it out, which costs one epoch; the leader stays."""
    stopped = after(play(THREE, "stop 1", generation), "stop 1")
    assert written(stopped) == [(0, 1, [0, 2], StateWriteReason.REPLICA_OFFLINE, 1)]
    assert stopped.after.live_brokers == (0, 2)


def test_a_stopped_broker_has_everything_on_disk() -> None:
    """An orderly shutdown flushes: a power cut right afterwards takes nothing."""
    story = play(TWO, "produce p a\nwait holds 1 a\nstop 1\npower-off 1\nrestart 1\nadvance 1s")
    assert values(after(story, "power-off 1"), 1) == "a"


def test_a_stopping_controller_is_succeeded_at_once() -> None:
    """Its session is closed, not left to expire."""
    stopped = after(play(TWO, "stop 2"), "stop 2")
    assert (stopped.after.controller, stopped.after.controller_epoch) == (0, 2)
    assert stopped.after.at_ms < 2_000


def test_a_stopping_leader_with_no_other_in_sync_leaves_the_partition_offline() -> None:
    """No other replica may lead: it asks three times, then stops; there is no leader until it returns."""
    story = play(TWO, "crash 1\nwait isr 0\nproduce p a\nstop 0\nadvance 20s\nrestart 0\nwait leads 0")
    assert state(after(story, "advance 20s"))[0] == -1
    assert values(story, 0) == "a"
    assert story.verdict.held


# ---------------------------------------------------------------- two controllers


@pytest.mark.parametrize("generation", ISR_GENERATIONS)
def test_a_deposed_controller_is_refused_by_brokers(generation: str) -> None:
    """Its requests, late in the network, carry an older controller epoch: STALE_CONTROLLER_EPOCH (11)."""
    steps = """
        hold control 2->1
        crash 0
        wait leader 1
        pause 2
        wait controller 1
        release control 2->1
        advance 1s
    """
    story = play(THREE, steps, generation)
    refusals = [line for line in happenings(story) if "refuses" in line]
    assert refusals
    assert all(line.endswith("STALE_CONTROLLER_EPOCH (11)") for line in refusals)


def test_a_paused_controller_finds_itself_deposed_and_resigns() -> None:
    """It wakes up, hears that its session expired, finds another controller and gives up."""
    story = play(THREE, "pause 2\nwait controller 0\nresume 2\nadvance 1s")
    assert "2 stops being controller: its keeper session expired" in happenings(after(story, "resume 2"))
    assert (story.final.controller, story.final.controller_epoch) == (0, 2)


def test_a_broker_refuses_an_older_controller_and_an_older_self() -> None:
    """Smaller controller epoch → 11, smaller broker epoch → 77; neither changes anything."""
    bench = Bench()
    bench.lead(epoch=4)
    me = bench.core.ctx.broker_epoch
    usurped = PartitionAssignment(
        tp=TP,
        replicas=ids((0, 1)),
        state=PartitionState(BrokerId(1), LeaderEpoch(9), ids((1,)), ControllerEpoch(1)),
    )
    for controller_epoch, broker_epoch, error in (
        (0, me, ErrorCode.STALE_CONTROLLER_EPOCH),
        (1, me - 1, ErrorCode.STALE_BROKER_EPOCH),
    ):
        request = LeaderAndIsrRequest(
            controller=BrokerId(8),
            controller_epoch=ControllerEpoch(controller_epoch),
            broker_epoch=BrokerEpoch(broker_epoch),
            request_id=77,
            partitions=(usurped,),
        )
        bench.hear(request, error)
        assert bench.answer(error, ControlResponse) == ControlResponse(request_id=77, error=error)
    assert bench.leader.epoch == 4
    assert [event.error.value for event in bench.happened(ControlRequestRefused)] == [11, 77]


def test_a_newer_controller_is_obeyed_and_the_older_one_no_longer() -> None:
    """The largest controller epoch seen is the measure."""
    bench = Bench()
    me, live = bench.core.ctx.broker_epoch, dict.fromkeys(ids(range(4)), BrokerEpoch(1))
    bench.hear(
        UpdateMetadataRequest(
            controller=BrokerId(8),
            controller_epoch=ControllerEpoch(2),
            broker_epoch=me,
            request_id=1,
            live_brokers=live,
            endpoints={},
            partitions=(),
        ),
        "new",
    )
    assert bench.core.known_controller == 8
    bench.hear(
        UpdateMetadataRequest(
            controller=CONTROLLER,
            controller_epoch=ControllerEpoch(1),
            broker_epoch=me,
            request_id=2,
            live_brokers=live,
            endpoints={},
            partitions=(),
        ),
        "old",
    )
    assert bench.answer("old", ControlResponse) == ControlResponse(
        request_id=2, error=ErrorCode.STALE_CONTROLLER_EPOCH
    )
    assert bench.core.known_controller == 8
