"""One real coordinator, driven by hand: requests and time go in, answers come out by who asked.

Its writes go to a list instead of a log. Writes are committed at once, unless the test holds them;
``succeed`` replaces the coordinator by a new one that has read what was committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidelog.core.effects import WakeAt
from tidelog.core.types import TopicPartition
from tidelog.groups.context import Answer, GroupConfig, Write
from tidelog.groups.coordinator import Coordinator
from tidelog.groups.messages import (
    CommitRequest,
    DeleteRequest,
    DescribeRequest,
    DescribeResponse,
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
    SyncResponse,
)
from tidelog.groups.records import Entry, read_entry
from tidelog.wire.errors import ErrorCode

G = "g"
TP = TopicPartition("t", 0)
NONE = ErrorCode.NONE
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = (("range", b"\0\0\0\0\0\1\0\1t"),)
MIDNIGHT = 1_600_000_000_000


class Desk:
    def __init__(self, **config: int) -> None:
        self.config = GroupConfig(**{"initial_rebalance_delay_ms": 0, **config})
        self.now = 1_000
        self.log: list[Entry] = []
        self.held: list[Write] | None = None
        self.failing: ErrorCode = NONE
        """What becomes of writes."""
        self.answers: dict[int, Any] = {}
        self.wake_at: int | None = None
        self.asked = 0
        self._drawn = 0
        self.coordinator = self._new()
        self.coordinator.loaded(self.now)

    def _new(self) -> Coordinator:
        return Coordinator(self.config, lambda: MIDNIGHT + self.now, self._draw)

    def _draw(self) -> str:
        self._drawn += 1
        return str(self._drawn)

    # ------------------------------------------------------------ inputs

    def ask(self, request: Request) -> int:
        """Returns the number under which the answer will be."""
        self.asked += 1
        self.coordinator.receive(request, self.asked, self.now)
        self.settle()
        return self.asked

    def answer(self, request: Request) -> Any:
        """The answer to a request that is answered at once."""
        return self.answers[self.ask(request)]

    def pass_time(self, ms: int) -> None:
        """Let the clock run, waking the coordinator when it asked to be."""
        end = self.now + ms
        while self.wake_at is not None and self.wake_at <= end:
            self.now, self.wake_at = max(self.wake_at, self.now), None
            self.coordinator.wake(self.now)
            self.settle()
        self.now = end

    def expire(self) -> None:
        self.coordinator.expire(self.now)
        self.settle()

    def commit_held(self, error: ErrorCode = NONE) -> None:
        held, self.held = self.held or [], None
        for write in held:
            self._finish(write, error)
        self.settle()

    def succeed(self) -> None:
        """The coordinator's broker dies; another one takes over with what was committed."""
        self.coordinator = self._new()
        self.wake_at = None
        self.held = None
        for key, value in self.log:
            record = read_entry(key, value)
            assert record is not None
            self.coordinator.load(record)
        self.coordinator.loaded(self.now)
        self.settle()

    def settle(self) -> None:
        effects = self.coordinator.effects
        while effects:
            for effect in [effects.pop(0)]:
                if isinstance(effect, Answer):
                    assert effect.to not in self.answers, "answered twice"
                    self.answers[effect.to] = effect.response  # type: ignore[index]
                elif isinstance(effect, WakeAt):
                    self.wake_at = effect.at if self.wake_at is None else min(self.wake_at, effect.at)
                elif self.held is not None:
                    self.held.append(effect)
                else:
                    self._finish(effect, self.failing)

    def _finish(self, write: Write, error: ErrorCode) -> None:
        if error is NONE:
            self.log += write.entries
        self.coordinator.written(write.number, error, self.now)

    # ------------------------------------------------------------ members

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Iterable[tuple[str, bytes]] = RANGE,
        **other: Any,
    ) -> int:
        values: dict[str, Any] = {
            "group": G,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "asks_for_id_first": False,
            **other,
        }
        return self.ask(
            JoinRequest(member_id=member_id, instance_id=instance, protocols=tuple(protocols), **values)
        )

    def joined(self, number: int) -> JoinResponse:
        response: JoinResponse = self.answers[number]
        assert response.error is NONE, response
        return response

    def sync(self, joined: JoinResponse, assignments: dict[str, bytes] | None = None, **other: Any) -> int:
        values: dict[str, Any] = {
            "generation": joined.generation,
            "member_id": joined.member_id,
            "instance_id": None,
            "protocol_type": joined.protocol_type,
            "protocol": joined.protocol,
            **other,
        }
        return self.ask(SyncRequest(G, assignments=assignments or {}, **values))

    def heartbeat(
        self, joined: JoinResponse, instance: str | None = None, generation: int | None = None
    ) -> ErrorCode:
        chosen = joined.generation if generation is None else generation
        return self.answer(HeartbeatRequest(G, chosen, joined.member_id, instance)).error

    def leave(self, member_id: str, instance: str | None = None) -> ErrorCode:
        response = self.answer(LeaveRequest(G, (LeavingMember(member_id, instance),)))
        assert response.error is NONE
        return response.members[0]

    def form(self, *instances: str | None) -> list[JoinResponse]:
        """A stable group with a member for each of these; each is assigned its own place in the list."""
        asked = [self.join(instance=instances[0])]
        for instance in instances[1:]:
            asked.append(self.join(instance=instance))
            first = self.joined(asked[0])
            asked[0] = self.join(first.member_id, instance=instances[0])
            for number in range(1, len(asked) - 1):
                member = self.joined(asked[number])
                asked[number] = self.join(member.member_id, instance=instances[number])
        members = [self.joined(number) for number in asked]
        leader = next(member for member in members if member.leader == member.member_id)
        assignments = {member.member_id: b"%d" % place for place, member in enumerate(members)}
        self.sync(leader, assignments)
        assert self.state == "Stable"
        return members

    def assignment(self, joined: JoinResponse) -> SyncResponse:
        return self.answers[self.sync(joined)]

    # ------------------------------------------------------------ positions

    def commit(
        self, offset: int, joined: JoinResponse | None = None, *, tp: TopicPartition = TP, **other: Any
    ) -> int:
        values: dict[str, Any] = {
            "group": G,
            "generation": -1 if joined is None else joined.generation,
            "member_id": "" if joined is None else joined.member_id,
            "instance_id": None,
            "positions": {tp: Position(offset)},
            **other,
        }
        return self.ask(CommitRequest(**values))

    def committed(self, number: int, tp: TopicPartition = TP) -> ErrorCode:
        return self.answers[number].errors[tp]

    def position(self, tp: TopicPartition = TP, group: str = G) -> int:
        response = self.answer(PositionsRequest(group, (tp,)))
        assert response.error is NONE
        return response.positions[tp].offset

    def forget(self, tp: TopicPartition = TP) -> Any:
        return self.answer(ForgetRequest(G, (tp,)))

    # ------------------------------------------------------------ the group

    def describe(self) -> DescribeResponse:
        return self.answer(DescribeRequest(G))

    @property
    def state(self) -> str:
        return self.describe().state

    def delete(self) -> ErrorCode:
        return self.answer(DeleteRequest(G)).error
