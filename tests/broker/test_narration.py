"""The log of a broker: one line for each incident, in words that say what and why."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from tidelog.broker.incident_log import Narration
from tidelog.core import events as e
from tidelog.core.reasons import ElectionKind, IsrChange, TruncationRule
from tidelog.core.types import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicPartition,
)
from tidelog.evidence import process_events as p
from tidelog.wire.errors import ErrorCode

ONE, TWO, THREE = map(BrokerId, (1, 2, 3))
A = TopicPartition("a", 0)


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("many", number) for number in range(count)]


@pytest.fixture
def narration() -> Narration:
    return Narration()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What has been said since the last call, with its level."""
    caplog.set_level(logging.INFO, logger="tidelog")

    def said() -> list[str]:
        found = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
        caplog.clear()
        return found

    return said


Said = Callable[[], list[str]]


def elected(
    tp: TopicPartition, leader: BrokerId, reason: ElectionKind, epoch: int = 1
) -> e.PartitionStateWritten:
    return e.PartitionStateWritten(
        ONE, tp, PartitionState(leader, LeaderEpoch(epoch), (leader,), ControllerEpoch(1)), reason
    )


def test_a_thousand_elections_are_one_line(narration: Narration, lines: Said):
    """The first few by name, the others by number. It waits as long as there are more of them."""
    for tp in partitions(1000):
        narration.observe(elected(tp, TWO, ElectionKind.CLEAN))
        if tp.partition % 100 == 0:
            narration.tell()
    narration.tell()
    assert lines() == []
    narration.tell()
    named = ", ".join(f"many-{number} (broker 2, epoch 1)" for number in range(4))
    assert lines() == [f"INFO elected a leader of {named} and 996 more: first live in-sync replica"]
    narration.tell()
    assert lines() == []


def test_an_incident_without_end_is_told_in_parts(narration: Narration, lines: Said):
    for tp in partitions(100):
        narration.observe(elected(tp, TWO, ElectionKind.PREFERRED))
        narration.tell()
    assert len(lines()) == 5


def test_changes_of_in_sync_replicas_say_who_and_why(narration: Narration, lines: Said):
    for before, after, reason in (
        ((ONE, TWO, THREE), (ONE,), IsrChange.CAUGHT_UP_TIME),
        ((ONE,), (ONE, THREE), IsrChange.CAUGHT_UP),
    ):
        narration.observe(e.IsrChangeProposed(ONE, A, LeaderEpoch(1), before, after, reason))
        narration.observe(e.IsrChanged(ONE, A, LeaderEpoch(1), after))
    narration.tell(all_of_it=True)
    assert lines() == [
        "INFO brokers 2, 3 left the in-sync replicas of a-0: caught-up-time rule: 2, 3 lagging",
        "INFO broker 3 joined the in-sync replicas of a-0: 3 has caught up",
    ]


def test_truncations_say_from_where_to_where(narration: Narration, lines: Said):
    narration.observe(e.Truncated(ONE, A, 12, 10, TruncationRule.OWN_HIGH_WATERMARK))
    narration.tell(all_of_it=True)
    assert lines() == ["INFO truncated a-0 from 12 to 10: to its own high watermark"]


def test_an_unclean_election_warns(narration: Narration, lines: Said):
    narration.observe(elected(A, THREE, ElectionKind.UNCLEAN, epoch=5))
    narration.tell(all_of_it=True)
    assert lines() == [
        "WARNING elected an out-of-sync leader of a-0 (broker 3, epoch 5): records of others may be lost"
    ]


def test_what_repeats_itself_is_said_once(narration: Narration, lines: Said):
    """Until there is another leader: then it is news again."""
    for _ in range(3):
        narration.observe(e.FollowerStalled(ONE, A, ErrorCode.KAFKA_STORAGE_ERROR))
        narration.observe(e.StorageFailed(ONE, A, "disk full"))
        narration.tell(all_of_it=True)
    once = ["ERROR a-0: disk full", "WARNING cannot follow the leader of a-0: KAFKA_STORAGE_ERROR"]
    assert sorted(lines()) == once
    narration.observe(e.BecameFollower(ONE, A, LeaderEpoch(2), TWO))
    narration.observe(e.FollowerStalled(ONE, A, ErrorCode.KAFKA_STORAGE_ERROR))
    narration.observe(e.StorageFailed(ONE, A, "disk full"))
    narration.tell(all_of_it=True)
    assert sorted(lines()) == once


def test_what_passes_by_itself_is_for_debugging(
    narration: Narration, lines: Said, caplog: pytest.LogCaptureFixture
):
    """Roles, and the moments in which a leader and a follower have not both heard of them."""
    for _ in ("info", "debug"):
        narration.observe(e.BecameLeader(ONE, A, LeaderEpoch(3), (ONE,), 7, 7))
        narration.observe(e.BecameFollower(ONE, A, LeaderEpoch(4), TWO))
        narration.observe(e.FollowerStalled(ONE, A, ErrorCode.UNKNOWN_LEADER_EPOCH))
        narration.tell(all_of_it=True)
        if _ == "info":
            assert lines() == []
            caplog.set_level(logging.DEBUG, logger="tidelog")
    assert lines() == [
        "DEBUG leads a-0 (epoch 3)",
        "DEBUG follows broker 2 in a-0 (epoch 4)",
        "DEBUG cannot follow the leader of a-0: UNKNOWN_LEADER_EPOCH",
    ]


def test_the_controller_tells_who_comes_and_goes(narration: Narration, lines: Said):
    """Not brokers that it finds when it takes over, and nothing while another broker is the controller."""
    for live in (
        None,
        {ONE: 10, TWO: 11},
        {ONE: 10, TWO: 11},
        {ONE: 10},
        {ONE: 10, THREE: 12},
        {ONE: 10, THREE: 13},
        None,
        {ONE: 10},
    ):
        narration.live_brokers(live)
    assert lines() == ["INFO broker 2 left", "INFO broker 3 joined", "INFO broker 3 was started again"]


def test_how_a_broker_came_and_went(narration: Narration, lines: Said):
    for event in (
        p.LogRecovered(A, 7, 20, 0, "cut 20 bytes at offset 7: a batch is torn"),
        p.StorageRecovered(False, 3, 1, 250),
        e.BrokerRegistered(ONE, BrokerEpoch(5)),
        p.KeeperSessionLost(1, "it expired"),
        e.BrokerRegistered(ONE, BrokerEpoch(9)),
        p.ControlledShutdownBegun("SIGTERM"),
        p.ControlledShutdownFinished(2, 40),
    ):
        narration.observe(event)
    assert lines() == [
        "WARNING recovered a-0: cut 20 bytes at offset 7: a batch is torn",
        "INFO opened 3 logs in 0.25 s, after a crash, scanned from their ends",
        "WARNING lost the session with the keeper (it expired) and all that was registered",
        "INFO registered, broker epoch 9",
        "INFO SIGTERM: handing leadership over",
        "INFO handed over in 40 ms, all but 2 partitions",
    ]
