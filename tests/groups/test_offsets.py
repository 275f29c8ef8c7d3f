"""Positions: who may commit them, when they count, how they are forgotten."""

from __future__ import annotations

import pytest
from tests.groups.desk import NONE, REBALANCE_MS, SESSION_MS, TP, Desk, G

from tidelog.core.types import LeaderEpoch, TopicPartition
from tidelog.groups.messages import NO_POSITION, DeleteRequest, Position, PositionsRequest
from tidelog.wire.errors import ErrorCode

OTHER = TopicPartition("u", 3)


def test_a_member_commits_and_anybody_reads() -> None:
    """Offset, epoch and metadata come back as they were given; a partition without one has -1."""
    desk = Desk()
    member = desk.form(None)[0]
    position = Position(42, LeaderEpoch(7), "noted")
    assert desk.committed(desk.commit(0, member, positions={TP: position})) is NONE
    response = desk.answer(PositionsRequest(G, (TP, OTHER)))
    assert response.positions == {TP: position, OTHER: NO_POSITION}
    assert desk.answer(PositionsRequest(G, None)).positions == {TP: position}


def test_a_group_without_members_takes_commits() -> None:
    """Of consumers that assign partitions to themselves: no member, no generation. Such a group exists."""
    desk = Desk()
    assert desk.committed(desk.commit(5)) is NONE
    assert desk.position() == 5
    assert desk.state == "Empty"
    assert [(each.group, each.protocol_type) for each in desk.coordinator.groups()] == [(G, "")]


def test_an_unknown_group_has_no_positions() -> None:
    """Asking is no error and makes no group."""
    desk = Desk()
    assert desk.position() == -1
    assert desk.answer(PositionsRequest(G, None)).positions == {}
    assert list(desk.coordinator.groups()) == []


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": -1}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "generation": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group": "another"}, ErrorCode.ILLEGAL_GENERATION),
        ({"group": "x" * 32_768}, ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_refused_commits_change_nothing(other: dict, error: ErrorCode) -> None:
    """A commit that is not a current member's is refused while the group has members."""
    desk = Desk()
    member = desk.form(None)[0]
    desk.commit(7, member)
    assert desk.committed(desk.commit(8, member, **other)) is error
    assert desk.position() == 7
    assert [each.group for each in desk.coordinator.groups()] == [G]


def test_metadata_has_a_limit() -> None:
    """The largest is taken, one more is not; the other partitions of the request are."""
    desk = Desk(metadata_length_max=10)
    largest, larger = Position(1, metadata="x" * 10), Position(2, metadata="x" * 11)
    number = desk.commit(0, positions={TP: largest, OTHER: larger})
    assert desk.answers[number].errors == {TP: NONE, OTHER: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert (desk.position(), desk.position(OTHER)) == (1, -1)
    number = desk.commit(0, positions={OTHER: larger})
    assert desk.answers[number].errors == {OTHER: ErrorCode.OFFSET_METADATA_TOO_LARGE}


def test_metadata_fits_its_record() -> None:
    """However generous the setting, a text that no record can hold is too large."""
    desk = Desk(metadata_length_max=1 << 20)
    assert desk.committed(desk.commit(0, positions={TP: Position(1, metadata="ü" * 16_384)})) is (
        ErrorCode.OFFSET_METADATA_TOO_LARGE
    )
    assert desk.committed(desk.commit(0, positions={TP: Position(1, metadata="x" * 32_767)})) is NONE


def test_commits_during_a_rebalance() -> None:
    """While the old generation gathers, it may still commit; in the new one only after the assignment."""
    desk = Desk()
    first = desk.form(None)[0]
    second = desk.join()
    assert desk.committed(desk.commit(3, first)) is NONE
    desk.join(first.member_id)
    new = desk.joined(second)
    assert desk.committed(desk.commit(4, new)) is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.committed(desk.commit(4, first)) is ErrorCode.ILLEGAL_GENERATION
    assert desk.position() == 3


def test_a_commit_is_a_sign_of_life() -> None:
    """A member that commits need not send heartbeats."""
    desk = Desk()
    member = desk.form(None)[0]
    for offset in range(3):
        desk.pass_time(SESSION_MS - 1)
        assert desk.committed(desk.commit(offset, member)) is NONE


def test_a_commit_counts_once_it_is_written() -> None:
    """Not before, and in the order of the log."""
    desk = Desk()
    desk.held = []
    first, second = desk.commit(1), desk.commit(2)
    assert first not in desk.answers
    assert desk.position() == -1
    desk.commit_held()
    assert (desk.committed(first), desk.committed(second)) == (NONE, NONE)
    assert desk.position() == 2


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_commits_that_cannot_be_written(failure: ErrorCode, told: ErrorCode) -> None:
    """The client gets an error of the group protocol, and the offset is unchanged."""
    desk = Desk()
    desk.commit(1)
    desk.failing = failure
    assert desk.committed(desk.commit(2)) is told
    assert desk.position() == 1


def test_forgetting() -> None:
    """Positions of an empty group go on request; one that is not there is no error."""
    desk = Desk()
    desk.commit(1)
    assert desk.forget(OTHER).errors == {OTHER: NONE}
    assert desk.forget().errors == {TP: NONE}
    assert desk.position() == -1
    desk.succeed()
    assert desk.position() == -1


def test_positions_in_use_are_not_forgotten() -> None:
    """Of topics that a member subscribes to; of others they are (KIP-496)."""
    desk = Desk()
    member = desk.form(None)[0]
    desk.commit(1, member)
    desk.commit(2, member, tp=OTHER)
    assert desk.forget().errors == {TP: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    assert desk.forget(OTHER).errors == {OTHER: NONE}
    assert (desk.position(), desk.position(OTHER)) == (1, -1)


def test_members_that_are_no_consumers_use_everything() -> None:
    """The topics of a group of another kind are unknown."""
    desk = Desk()
    joined = desk.joined(desk.join(protocol_type="connect"))
    desk.sync(joined)
    assert desk.forget().error is ErrorCode.NON_EMPTY_GROUP


def test_unreadable_subscriptions_protect_everything() -> None:
    """A member whose metadata is not a subscription may be reading any topic."""
    for metadata in (b"", b"\0", b"\0\0\xff\xff\xff\xff", b"\0\0\0\0\0\1\0\x05t", b"\0\0\x7f\xff\xff\xff"):
        desk = Desk()
        joined = desk.joined(desk.join(protocols=(("range", metadata),)))
        desk.sync(joined)
        desk.commit(1, joined)
        assert desk.forget().errors == {TP: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


def test_deleting_a_group() -> None:
    """Only an empty one; with it go its positions, also those that were being written, and for good."""
    desk = Desk()
    member = desk.form(None)[0]
    assert desk.delete() is ErrorCode.NON_EMPTY_GROUP
    desk.commit(1, member)
    desk.leave(member.member_id)
    desk.held = []
    unwritten = desk.commit(2, tp=OTHER)
    deleting = desk.ask(DeleteRequest(G))
    assert desk.describe().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    desk.commit_held()
    assert desk.committed(unwritten, OTHER) is NONE
    assert desk.answers[deleting].error is NONE
    for _ in range(2):
        assert (desk.position(), desk.position(OTHER), desk.state) == (-1, -1, "Dead")
        desk.succeed()


def test_a_deletion_that_cannot_be_written() -> None:
    """The group is as it was."""
    desk = Desk()
    desk.commit(1)
    desk.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert desk.delete() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (desk.position(), desk.state) == (1, "Empty")


def test_positions_in_deleted_topics_go_with_them() -> None:
    """Also those that are just being written; the group and its other positions stay."""
    desk = Desk()
    member = desk.form(None)[0]
    desk.commit(1, member)
    desk.held = []
    desk.commit(2, member)
    desk.commit(3, member, tp=OTHER)
    desk.coordinator.topics_deleted([TP.topic], desk.now)
    desk.settle()
    desk.commit_held()
    for _ in range(2):
        assert (desk.position(), desk.position(OTHER), desk.state) == (-1, 3, "Stable")
        desk.succeed()


def test_positions_of_an_empty_group_expire() -> None:
    """Counted from when its last member left, not from the commit; the group goes with them."""
    desk = Desk(retention_ms=3 * REBALANCE_MS)
    member = desk.form(None)[0]
    desk.commit(1, member)
    for _ in range(10):
        desk.pass_time(SESSION_MS - 1)
        desk.heartbeat(member)
    desk.leave(member.member_id)
    desk.pass_time(3 * REBALANCE_MS - 1)
    desk.expire()
    assert desk.position() == 1
    desk.pass_time(1)
    desk.expire()
    assert (desk.position(), desk.state) == (-1, "Dead")
    desk.succeed()
    assert list(desk.coordinator.groups()) == []


def test_positions_without_members_expire_one_by_one() -> None:
    """Each from its own commit, if the group never had members."""
    desk = Desk(retention_ms=1_000)
    desk.commit(1)
    desk.pass_time(500)
    desk.commit(2, tp=OTHER)
    desk.pass_time(500)
    desk.expire()
    assert (desk.position(), desk.position(OTHER)) == (-1, 2)


def test_what_a_stable_group_reads_does_not_expire() -> None:
    """However old; what it does not read any more does."""
    desk = Desk(retention_ms=1_000)
    member = desk.form(None)[0]
    desk.commit(1, member)
    desk.commit(2, member, tp=OTHER)
    desk.pass_time(5_000)
    desk.expire()
    assert (desk.position(), desk.position(OTHER)) == (1, -1)


def test_groups_that_never_came_into_being_are_forgotten() -> None:
    """An id was asked for and never used: no member, no position, and in the end no group, nor a record."""
    desk = Desk()
    desk.join(asks_for_id_first=True)
    desk.pass_time(SESSION_MS)
    desk.expire()
    assert list(desk.coordinator.groups()) == []
    assert desk.log == []
