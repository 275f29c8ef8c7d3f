"""A coordinator dies and another takes over: what was answered stands, whoever waits is not forgotten."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.effort import EFFORT
from tests.groups.desk import NONE, REBALANCE_MS, SESSION_MS, TP, Desk, G

from tidelog.core.types import TopicPartition
from tidelog.groups.group import State
from tidelog.groups.membership import NEW_MEMBER_TIMEOUT_MS
from tidelog.groups.messages import (
    CommitRequest,
    DeleteRequest,
    DescribeRequest,
    ForgetRequest,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeavingMember,
    Position,
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
    """Sessions begin anew with the new coordinator, and end as always."""
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
    desk._settle()
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
    """Nothing is decided by half of the log. A member is told to go on, or to join again."""
    desk = Desk()
    desk.coordinator = desk._new()
    expected = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if error is None else error
    assert desk.answer(request_).error is expected
    assert desk.committed(desk.commit(1)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


MEMBERS = st.integers(0, 4)
OFFSETS = st.integers(0, 1 << 40)
FAILURES = st.sampled_from(
    [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.MESSAGE_TOO_LARGE]
)


class AnyHistory(RuleBasedStateMachine):
    """Clients, time, a failing log and dying coordinators in any order. Members are slots: each remembers
    what it was last told and acts on it, however old that is."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(members_max=4)
        self.told: dict[int, JoinResponse] = {}
        self.joining: dict[int, int] = {}
        self.acknowledged: dict[TopicPartition, int] = {}
        self.in_doubt: list[tuple[int, TopicPartition, int]] = []
        self.lost_answers: set[int] = set()
        self.generation = 0

    @initialize(delay=st.sampled_from([0, 3_000]))
    def begin(self, delay: int) -> None:
        self.desk = Desk(initial_rebalance_delay_ms=delay, members_max=4)

    # ------------------------------------------------------------ members

    def _instance(self, slot: int) -> str | None:
        return f"static-{slot}" if slot >= 3 else None

    @rule(slot=MEMBERS, afresh=st.booleans(), id_first=st.booleans(), data=st.sampled_from([b"", b"x"]))
    def join(self, slot: int, afresh: bool, id_first: bool, data: bytes) -> None:
        known = "" if afresh or slot not in self.told else self.told[slot].member_id
        self.joining[slot] = self.desk.join(
            known,
            instance=self._instance(slot),
            protocols=(("range", data), ("sticky", b"")),
            asks_for_id_first=id_first,
        )

    @rule(slot=MEMBERS)
    def hear(self, slot: int) -> None:
        answer = self.desk.answers.get(self.joining.get(slot, -1))
        if isinstance(answer, JoinResponse) and answer.error in (NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.told[slot] = answer

    @rule(slot=MEMBERS)
    def sync(self, slot: int) -> None:
        if slot in self.told:
            told = self.told[slot]
            shares = {member.member_id: member.member_id.encode() for member in told.members}
            self.desk.sync(told, shares, instance_id=self._instance(slot))

    @rule(slot=MEMBERS)
    def heartbeat(self, slot: int) -> None:
        if slot in self.told:
            self.desk.heartbeat(self.told[slot], self._instance(slot))

    @rule(slot=MEMBERS)
    def leave(self, slot: int) -> None:
        if slot in self.told:
            self.desk.leave(self.told[slot].member_id, self._instance(slot))

    # ------------------------------------------------------------ positions

    @rule(slot=MEMBERS | st.none(), offset=OFFSETS, partition=st.integers(0, 1))
    def commit(self, slot: int | None, offset: int, partition: int) -> None:
        told = self.told.get(slot) if slot is not None else None
        if slot is not None and told is None:
            return
        tp = TopicPartition("t", partition)
        number = self.desk.ask(
            CommitRequest(
                G,
                -1 if told is None else told.generation,
                "" if told is None else told.member_id,
                None if slot is None else self._instance(slot),
                {tp: Position(offset)},
            )
        )
        if number in self.desk.answers:
            if self.desk.committed(number, tp) is NONE:
                self.acknowledged[tp] = offset
        else:
            self.in_doubt.append((number, tp, offset))

    @rule()
    def delete_group(self) -> None:
        if self.desk.held is None and self.desk.delete() is NONE:
            self.acknowledged.clear()

    # ------------------------------------------------------------ the world

    @rule(ms=st.sampled_from([1, 1_000, SESSION_MS // 2, SESSION_MS, REBALANCE_MS]))
    def time(self, ms: int) -> None:
        self.desk.pass_time(ms)

    @rule()
    def hold_writes(self) -> None:
        if self.desk.held is None:
            self.desk.held = []

    @rule(error=st.just(NONE) | FAILURES)
    def finish_writes(self, error: ErrorCode) -> None:
        self.desk.commit_held(error)
        for number, tp, offset in self.in_doubt:
            if self.desk.committed(number, tp) is NONE:
                self.acknowledged[tp] = offset
        self.in_doubt.clear()

    @rule()
    def die(self) -> None:
        self.lost_answers |= set(range(1, self.desk._asked + 1)) - self.desk.answers.keys()
        self.in_doubt.clear()
        self.desk.succeed()

    # ------------------------------------------------------------ what always holds

    @invariant()
    def acknowledged_positions_are_there(self) -> None:
        if not self.in_doubt:
            for tp, offset in self.acknowledged.items():
                assert self.desk.position(tp) == offset

    @invariant()
    def the_group_makes_sense(self) -> None:
        group = self.desk.coordinator._groups.get(G)
        if group is None:
            return
        members = group.members
        assert (group.leader in members) == bool(members)
        assert (group.state is State.EMPTY) <= (not members)
        assert list(members) == [member.id for member in members.values()]
        assert len(members) <= 5
        for instance, id_ in group.static_ids.items():
            assert members[id_].instance_id == instance
        named = [member.instance_id for member in members.values() if member.instance_id is not None]
        assert sorted(named) == sorted(group.static_ids)
        if group.state is State.STABLE:
            assert all(member.awaits_sync is None for member in members.values())
        if group.state in (State.STABLE, State.COMPLETING):
            assert group.protocol in ("range", "sticky")

    def teardown(self) -> None:
        """Everybody is answered in the end, unless the coordinator died, and the group is empty."""
        self.desk.commit_held()
        self.desk.pass_time(NEW_MEMBER_TIMEOUT_MS + 2 * REBALANCE_MS)
        everybody = set(range(1, self.desk._asked + 1))
        assert everybody - self.desk.answers.keys() <= self.lost_answers
        assert self.desk.state in ("Empty", "Dead")


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(
    max_examples=40 * EFFORT,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
