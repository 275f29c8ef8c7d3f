"""A coordinator dies and another takes over: acknowledged changes stay, and waiting members are answered."""

from __future__ import annotations

import pytest
from tests.groups.desk import NONE, SESSION_MS, TP, Desk, G

from tidelog.groups.messages import (
    DeleteRequest,
    DescribeRequest,
    ForgetRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    PositionsRequest,
    Request,
    SyncRequest,
)
from tidelog.wire.errors import ErrorCode


def test_members_go_on_where_they_were() -> None:
    """Generation, leader, assignments and positions are the same; heartbeats are taken at once."""
    desk = Desk()
    leader, other = desk.form(None, "static")
    desk.commit(9, other, instance_id="static")
    before = desk.describe()
    desk.succeed()
    assert desk.describe() == before
    assert desk.heartbeat(leader) is NONE
    assert desk.heartbeat(other, "static") is NONE
    assert desk.assignment(other).assignment == b"1"
    assert desk.position() == 9


def test_members_that_do_not_come_along_expire() -> None:
    """Sessions begin again with the new coordinator, and end as always."""
    desk = Desk()
    desk.form(None)
    desk.succeed()
    desk.pass_time(SESSION_MS)
    assert desk.state == "Empty"


def test_an_unfinished_rebalance_starts_over() -> None:
    """What was not written is forgotten: the newcomer is a stranger, the old member of the last generation
    is not, and both can join."""
    desk = Desk()
    first = desk.form(None)[0]
    second = desk.join()
    desk.join(first.member_id)
    unsynced = desk.joined(second)
    desk.succeed()
    assert desk.heartbeat(first) is NONE
    assert desk.answers[desk.sync(unsynced)].error is ErrorCode.UNKNOWN_MEMBER_ID
    newcomer = desk.join()
    assert desk.joined(desk.join(first.member_id)).generation == 2
    assert desk.joined(newcomer).generation == 2


def test_whoever_waits_is_sent_on() -> None:
    """Joins and syncs that wait when the coordinator is deposed are answered NOT_COORDINATOR."""
    desk = Desk()
    first = desk.form(None)[0]
    joining = desk.join()
    desk.coordinator.hand_over()
    desk.settle()
    assert desk.answers[joining].error is ErrorCode.NOT_COORDINATOR
    assert first.member_id


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (JoinRequest(G, "", None, "c", "h", SESSION_MS, 1, "consumer", (("range", b""),)), None),
        (SyncRequest(G, 1, "m", None, None, None, {}), ErrorCode.REBALANCE_IN_PROGRESS),
        (HeartbeatRequest(G, 1, "m"), NONE),
        (LeaveRequest(G, (LeavingMember("m"),)), None),
        (PositionsRequest(G, None), None),
        (DescribeRequest(G), None),
        (DeleteRequest(G), None),
        (ForgetRequest(G, (TP,)), None),
    ],
)
def test_while_loading(request_: Request, error: ErrorCode | None) -> None:
    """Nothing is decided by half of the log. A heartbeat succeeds, a sync must join again."""
    desk = Desk()
    desk.coordinator = desk._new()
    expected = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if error is None else error
    assert desk.answer(request_).error is expected
    assert desk.committed(desk.commit(1)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
