"""Members of one group on the simulated cluster, while its brokers crash, freeze and are cut off.

Members are slots that act on their last answer, each with its own random choices: they join, sync, send
heartbeats, commit, leave, and send to any broker that considers itself coordinator, deposed ones included.
Slots from ``STATIC_FROM`` on are static members whose processes are replaced now and then.

Invariants, with any coordinator:

* In one generation all members act on the same assignment.
* Once a member has received its share in a generation, nothing is committed for an older one; and nothing by
  a static member that another process has replaced.
* No acknowledged position is ever lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.groups.mishaps import Mishaps
from tests.groups.simulated import Seat, SimulatedGroups

from tidelog.core.messages import ACKS_ALL
from tidelog.core.types import TopicPartition
from tidelog.groups.messages import (
    CommitRequest,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeavingMember,
    Position,
    PositionsRequest,
    PositionsResponse,
    Request,
    SyncRequest,
    SyncResponse,
)
from tidelog.wire.errors import ErrorCode

G = "g"
TP = TopicPartition("t", 0)
NONE = ErrorCode.NONE
SLOTS = 4
STATIC_FROM = 2
SESSION_MS, REBALANCE_MS = 8_000, 6_000


@dataclass
class Slot:
    """One member: its last answers, and its assignments if it is the leader."""

    instance: str | None
    joined: JoinResponse | None = None
    nonce: int = 0
    replaced: tuple[str, ...] = ()
    """Ids of processes whose place a later one has taken."""


@dataclass
class Commit:
    offset: int
    generation: int
    member_id: str
    superseded: bool
    """When it was sent, a member knew its share in a later generation, or another process had replaced the
    sender."""


class MembershipOrdeal:
    def __init__(self, seed: int, acks: int = ACKS_ALL) -> None:
        self.dice = random.Random(seed)
        self.groups = SimulatedGroups(acks)
        self.mishaps = Mishaps(self.groups, self.dice)
        self.slots = [Slot(f"static-{n}" if n >= STATIC_FROM else None) for n in range(SLOTS)]
        self.steps: list[str] = []
        self.offset = 0
        self.acknowledged = -1
        self.shares: dict[int, bytes] = {}
        """Which assignment, by the mark of the leader that made it, a generation acts on."""
        self.generation_known = -1
        """The latest generation in which a member knows its share."""
        self._asked: dict[int, tuple[str, int | Commit]] = {}
        self._actions: tuple[tuple[int, Callable[[], str]], ...] = (
            *((4, self.rebalance), (2, self.join), (2, self.sync), (3, self.heartbeat), (1, self.leave)),
            *((6, self.commit), (3, self.mishaps.wait)),
            *((1, mishap) for mishap in self.mishaps.all),
        )

    def run(self, steps: int) -> None:
        weights = [weight for weight, _ in self._actions]
        for _ in range(steps):
            action = self.dice.choices(self._actions, weights)[0][1]
            self.steps.append(action())
            self.listen()
        self.end()

    # ------------------------------------------------------------ members

    def _anybody(self) -> Seat | None:
        seats = list(self.groups.coordinating())
        return self.dice.choice(seats) if seats else None

    def _ask(self, request: Request, kind: str, about: int | Commit) -> str:
        seat = self._anybody()
        if seat is None:
            return "-"
        self._asked[self.groups.ask(seat, request)] = (kind, about)
        return f"{kind} {about} at {seat.broker}"

    def rebalance(self) -> str:
        """All members join and sync. Faults may still happen while their requests are on the way."""
        for act in (self.join, self.sync):
            for number in range(SLOTS):
                act(number)
            if self.dice.random() < 0.2:
                self.dice.choice(self.mishaps.all)()
            self.groups.advance(self.dice.choice([100, 500, REBALANCE_MS]))
            self.listen()
        return "rebalance"

    def join(self, number: int | None = None) -> str:
        number = self.dice.randrange(SLOTS) if number is None else number
        slot = self.slots[number]
        starts_anew = slot.joined is None or self.dice.random() < 0.2
        member_id = "" if starts_anew or slot.joined is None else slot.joined.member_id
        request = JoinRequest(
            G,
            member_id,
            slot.instance,
            f"client-{number}",
            "/h",
            SESSION_MS,
            REBALANCE_MS,
            "consumer",
            (("range", b"%d" % number),),
            asks_for_id_first=self.dice.random() < 0.5,
        )
        return self._ask(request, "join", number)

    def sync(self, number: int | None = None) -> str:
        number = self.dice.randrange(SLOTS) if number is None else number
        slot = self.slots[number]
        joined = slot.joined
        if joined is None:
            return "-"
        # A leader that asks again hands in the same: it has computed it once.
        shares = {each.member_id: b"%d:%d" % (joined.generation, slot.nonce) for each in joined.members}
        request = SyncRequest(G, joined.generation, joined.member_id, slot.instance, None, None, shares)
        return self._ask(request, f"sync {joined.generation}", number)

    def heartbeat(self) -> str:
        number = self.dice.randrange(SLOTS)
        joined = self.slots[number].joined
        if joined is None:
            return "-"
        return self._ask(HeartbeatRequest(G, joined.generation, joined.member_id), "heartbeat", number)

    def leave(self) -> str:
        number = self.dice.randrange(SLOTS)
        slot = self.slots[number]
        if slot.joined is None:
            return "-"
        leaving = LeavingMember(slot.joined.member_id, slot.instance)
        return self._ask(LeaveRequest(G, (leaving,)), "leave", number)

    def commit(self) -> str:
        slot = self.dice.choice(self.slots)
        joined = slot.joined
        if joined is None or joined.generation < 0:
            return "-"
        old = bool(slot.replaced) and self.dice.random() < 0.3
        member_id = self.dice.choice(slot.replaced) if old else joined.member_id
        self.offset += 1
        superseded = old or joined.generation < self.generation_known
        sent = Commit(self.offset, joined.generation, member_id, superseded)
        position = {TP: Position(self.offset)}
        return self._ask(
            CommitRequest(G, joined.generation, member_id, slot.instance, position), "commit", sent
        )

    # ------------------------------------------------------------ answers

    def listen(self) -> None:
        for number in sorted(self._asked.keys() & self.groups.answers.keys()):
            kind, about = self._asked.pop(number)
            self._hear(kind, about, self.groups.answers[number])

    def _hear(self, kind: str, about: int | Commit, answer: Any) -> None:
        if isinstance(answer, JoinResponse) and isinstance(about, int):
            self._hear_join(self.slots[about], answer)
        elif isinstance(answer, SyncResponse) and answer.error is NONE and answer.assignment:
            generation = int(kind.split()[1])
            made_in, _ = answer.assignment.split(b":")
            assert int(made_in) == generation, "a share of another generation"
            known = self.shares.setdefault(generation, answer.assignment)
            assert known == answer.assignment, f"two assignments in generation {generation}"
            self.generation_known = max(self.generation_known, generation)
        elif isinstance(about, Commit) and answer.errors[TP] is NONE:
            assert not about.superseded, f"a commit that is not its sender's to make: {about}"
            self.acknowledged = max(self.acknowledged, about.offset)

    def _hear_join(self, slot: Slot, answer: JoinResponse) -> None:
        if answer.error not in (NONE, ErrorCode.MEMBER_ID_REQUIRED):
            return
        before = slot.joined
        static = before is not None and slot.instance is not None and NONE is before.error is answer.error
        if static and before is not None and before.member_id != answer.member_id:
            slot.replaced = (*slot.replaced, before.member_id)
        slot.joined = answer
        slot.nonce += 1

    # ------------------------------------------------------------ the end

    def end(self) -> None:
        """When all is well again the position is at least the last that was acknowledged."""
        self.steps += self.mishaps.make_good()
        self.listen()
        for _ in range(300):
            for seat in self.groups.coordinating():
                number = self.groups.ask(seat, PositionsRequest(G, (TP,)))
                self.groups.advance(100)
                found = self.groups.answers.get(number)
                if isinstance(found, PositionsResponse) and found.error is NONE:
                    assert self.acknowledged <= found.positions[TP].offset <= self.offset
                    return
            self.groups.advance(100)
        raise AssertionError("no broker coordinates")
