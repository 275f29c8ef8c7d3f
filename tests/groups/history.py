"""A random history of one group: clients, time, a log that is slow or fails, coordinators that die.

Members are slots. Each acts on its last answer, and sometimes on an earlier one; slots from ``STATIC_FROM``
on are static members. Every invariant is checked after every step; leaders send assignments that name
generation and slot, so that a wrong one is detected.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.groups.desk import NONE, REBALANCE_MS, SESSION_MS, Desk, G

from tidelog.core.types import TopicPartition
from tidelog.groups.group import Group, State
from tidelog.groups.membership import NEW_MEMBER_TIMEOUT_MS
from tidelog.groups.messages import CommitResponse, JoinResponse, SyncResponse
from tidelog.groups.records import GroupRecord, StoredGroup, read_entry
from tidelog.wire.errors import ErrorCode

SLOTS = 4
STATIC_FROM = 2
PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]
FAILURES = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.MESSAGE_TOO_LARGE)


class History:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        delay = self.dice.choice([0, 0, 3_000])
        self.desk = Desk(initial_rebalance_delay_ms=delay, members_max=self.dice.choice([3, 100]))
        self.steps: list[str] = []
        self._told: dict[int, JoinResponse] = {}
        self._before: dict[int, JoinResponse] = {}
        self._joins: dict[int, int] = {}
        """Who asked to join under which number."""
        self._syncs: dict[int, tuple[int, int]] = {}
        """Slot and generation of each sync."""
        self._commits: dict[int, tuple[TopicPartition, int]] = {}
        self._seen: set[int] = set()
        self._lost_answers: set[int] = set()
        self._offset = 0
        self._acknowledged: dict[TopicPartition, int] = {}
        self._actions: list[tuple[int, Callable[[], str]]] = [
            (8, self._join),
            (8, self._sync),
            (4, self._heartbeat),
            (2, self._leave),
            (4, self._commit),
            (1, self._delete),
            (4, self._pass_time),
            (3, self._hold),
            (5, self._release),
            (1, self._die),
        ]

    def run(self, steps: int) -> None:
        weights = [weight for weight, _ in self._actions]
        for _ in range(steps):
            action = self.dice.choices(self._actions, weights)[0][1]
            self.steps.append(action())
            self._listen()
            self._check()
        self._end()

    # ------------------------------------------------------------ members

    def _slot(self) -> int:
        return self.dice.randrange(SLOTS)

    def _instance(self, slot: int) -> str | None:
        return f"static-{slot}" if slot >= STATIC_FROM else None

    def _knowledge(self, slot: int) -> JoinResponse | None:
        stale = self.dice.random() < 0.1
        return (self._before if stale else self._told).get(slot)

    def _join(self) -> str:
        slot = self._slot()
        told = None if self.dice.random() < 0.15 else self._knowledge(slot)
        version = self.dice.choice([b"", b"", b"changed "])
        self._joins[slot] = self.desk.join(
            told.member_id if told is not None else "",
            instance=self._instance(slot),
            protocols=(("range", version + b"%d" % slot), ("sticky", b"%d" % slot)),
            asks_for_id_first=self.dice.random() < 0.5,
        )
        return f"join {slot}"

    def _sync(self) -> str:
        slot = self._slot()
        told = self._knowledge(slot)
        if told is None:
            return "-"
        shares = {
            member.member_id: b"%d:" % told.generation + member.metadata[-1:] for member in told.members
        }
        number = self.desk.sync(told, shares, instance_id=self._instance(slot))
        self._syncs[number] = (slot, told.generation)
        return f"sync {slot}"

    def _heartbeat(self) -> str:
        slot = self._slot()
        told = self._knowledge(slot)
        if told is not None:
            self.desk.heartbeat(told, self._instance(slot))
        return f"heartbeat {slot}"

    def _leave(self) -> str:
        slot = self._slot()
        told = self._knowledge(slot)
        if told is not None:
            self.desk.leave(told.member_id, self._instance(slot))
        return f"leave {slot}"

    # ------------------------------------------------------------ positions

    def _commit(self) -> str:
        slot = self._slot()
        told = self._knowledge(slot) if self.dice.random() < 0.8 else None
        self._offset += 1
        tp = self.dice.choice(PARTITIONS)
        instance = self._instance(slot) if told is not None else None
        number = self.desk.commit(self._offset, told, tp=tp, instance_id=instance)
        self._commits[number] = (tp, self._offset)
        return f"commit {self._offset} to {tp} by {slot if told else 'nobody'}"

    def _delete(self) -> str:
        if self.desk.held is None and self.desk.delete() is NONE:
            self._acknowledged.clear()
        return "delete"

    # ------------------------------------------------------------ the world

    def _pass_time(self) -> str:
        ms = self.dice.choice([1, 1_000, SESSION_MS // 2, SESSION_MS // 2, SESSION_MS, REBALANCE_MS])
        self.desk.pass_time(ms)
        return f"{ms} ms"

    def _hold(self) -> str:
        if self.desk.held is None:
            self.desk.held = []
        return "writes are held"

    def _release(self) -> str:
        error = self.dice.choice([NONE, NONE, *FAILURES])
        self.desk.commit_held(error)
        return f"writes: {error.name}"

    def _die(self) -> str:
        self._lost_answers |= set(range(1, self.desk.asked + 1)) - self.desk.answers.keys()
        self.desk.succeed()
        return "another coordinator"

    # ------------------------------------------------------------ answers

    def _listen(self) -> None:
        for number in sorted(self.desk.answers.keys() - self._seen):
            self._seen.add(number)
            answer = self.desk.answers[number]
            if isinstance(answer, JoinResponse):
                self._hear(number, answer)
            elif isinstance(answer, SyncResponse) and number in self._syncs and answer.error is NONE:
                slot, generation = self._syncs[number]
                assert answer.assignment in (b"", b"%d:%d" % (generation, slot)), "another member's share"
            elif isinstance(answer, CommitResponse) and number in self._commits:
                tp, offset = self._commits[number]
                if answer.errors[tp] is NONE:
                    self._acknowledged[tp] = offset

    def _hear(self, number: int, answer: JoinResponse) -> None:
        for slot, asked in self._joins.items():
            if asked == number and answer.error in (NONE, ErrorCode.MEMBER_ID_REQUIRED):
                if slot in self._told:
                    self._before[slot] = self._told[slot]
                self._told[slot] = answer

    # ------------------------------------------------------------ what always holds

    def _check(self) -> None:
        for tp in PARTITIONS:
            assert self.desk.position(tp) == self._acknowledged.get(tp, -1), "a position is not the last one"
        group = self.desk.coordinator._groups.get(G)
        if group is not None:
            self._check_members(group)
            if self.desk.held is None and group.state is State.STABLE:
                self._check_stable(group)

    @staticmethod
    def _check_members(group: Group) -> None:
        members = group.members
        assert (group.leader in members) == bool(members), "the leader is no member"
        assert (group.state is not State.EMPTY) or not members
        assert list(members) == [member.id for member in members.values()]
        named = {
            member.instance_id: member.id for member in members.values() if member.instance_id is not None
        }
        assert named == group.static_ids
        if group.state in (State.STABLE, State.COMPLETING):
            assert group.protocol in ("range", "sticky")

    def _check_stable(self, group: Group) -> None:
        """No request waits, and the log has the same state: a new coordinator continues from here."""
        for member in group.members.values():
            assert member.awaits_join is None
            assert member.awaits_sync is None
        stored = self._stored()
        assert stored is not None
        assert (stored.generation, stored.protocol) == (group.generation, group.protocol)
        assert {each.member_id: (each.instance_id, each.assignment) for each in stored.members} == {
            member.id: (member.instance_id, member.assignment) for member in group.members.values()
        }

    def _stored(self) -> StoredGroup | None:
        for entry in reversed(self.desk.log):
            record = read_entry(*entry)
            if isinstance(record, GroupRecord):
                return record.stored
        return None

    def _end(self) -> None:
        """All requests are answered in the end, unless their coordinator died, and the group is empty."""
        self.desk.commit_held()
        self._listen()
        self.desk.pass_time(NEW_MEMBER_TIMEOUT_MS + 3 * REBALANCE_MS)
        unanswered = set(range(1, self.desk.asked + 1)) - self.desk.answers.keys()
        assert unanswered <= self._lost_answers, "a client is left without an answer"
        assert self.desk.state in ("Empty", "Dead")
        self._check()
