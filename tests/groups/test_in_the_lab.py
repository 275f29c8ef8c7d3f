"""Coordinators on the simulated cluster, whose brokers crash, freeze and are cut off: acknowledged commits
stay."""

from __future__ import annotations

import random

import pytest
from tests.effort import tries
from tests.groups.membership_ordeal import MembershipOrdeal
from tests.groups.mishaps import Mishaps
from tests.groups.simulated import SimulatedGroups

from tidelog.core.messages import ACKS_ALL
from tidelog.core.types import TopicPartition
from tidelog.groups.messages import (
    CommitRequest,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    Position,
    PositionsRequest,
    SyncRequest,
)
from tidelog.wire.errors import ErrorCode

G = "g"
TP = TopicPartition("t", 0)
NONE = ErrorCode.NONE
MEMBER = "m"


def commit(offset: int, generation: int = -1, member_id: str = "") -> CommitRequest:
    return CommitRequest(G, generation, member_id, None, {TP: Position(offset)})


def join(member_id: str = "") -> JoinRequest:
    return JoinRequest(
        G,
        member_id,
        None,
        MEMBER,
        "/h",
        20_000,
        60_000,
        "consumer",
        (("range", b""),),
        asks_for_id_first=False,
    )


def answer_of(groups: SimulatedGroups, request: object) -> object:
    """Ask the coordinator, for as long as it takes."""
    for _ in range(300):
        for seat in groups.coordinating():
            number = groups.ask(seat, request)  # type: ignore[arg-type]
            groups.advance(100)
            answer = groups.answers.get(number)
            if answer is not None and getattr(answer, "error", NONE) is NONE:
                return answer
        groups.advance(100)
    raise AssertionError("no broker coordinates")


def test_a_group_outlives_its_coordinator() -> None:
    """The leader of the partition crashes: the next one knows the member, its share and its position."""
    groups = SimulatedGroups()
    joined = answer_of(groups, join())
    assert isinstance(joined, JoinResponse)
    share = {joined.member_id: b"everything"}
    answer_of(groups, SyncRequest(G, joined.generation, joined.member_id, None, None, None, share))
    first = next(groups.coordinating())
    number = groups.ask(first, commit(42, joined.generation, joined.member_id))
    groups.advance(2_000)
    assert groups.answers[number].errors == {TP: NONE}
    groups.world.crash(first.broker)
    groups.advance(6_000)
    assert all(seat is not first for seat in groups.coordinating())
    answer_of(groups, HeartbeatRequest(G, joined.generation, joined.member_id))
    synced = answer_of(groups, SyncRequest(G, joined.generation, joined.member_id, None, None, None, {}))
    assert synced.assignment == b"everything"  # type: ignore[attr-defined]
    found = answer_of(groups, PositionsRequest(G, (TP,)))
    assert found.positions[TP].offset == 42  # type: ignore[attr-defined]


class Ordeal:
    """Commits to brokers that consider themselves coordinator, while brokers crash, freeze and are cut
    off."""

    def __init__(self, seed: int, acks: int = ACKS_ALL) -> None:
        self.dice = random.Random(seed)
        self.groups = SimulatedGroups(acks)
        self.mishaps = Mishaps(self.groups, self.dice)
        self.offset = 0
        self.asked: dict[int, int] = {}
        self.steps: list[str] = []

    def run(self, steps: int) -> None:
        actions = (*(self.commit,) * 4, *(self.mishaps.wait,) * 3, *self.mishaps.all)
        for _ in range(steps):
            self.steps.append(self.dice.choice(actions)())
        self.end()

    def commit(self) -> str:
        seats = list(self.groups.coordinating())
        if not seats:
            return "-"
        seat = self.dice.choice(seats)
        self.offset += 1
        self.asked[self.groups.ask(seat, commit(self.offset))] = self.offset
        return f"commit {self.offset} at {seat.broker}"

    def end(self) -> None:
        """When all is well again, the position is at least the last that was acknowledged."""
        self.steps += self.mishaps.make_good()
        found = answer_of(self.groups, PositionsRequest(G, (TP,)))
        position = found.positions[TP].offset  # type: ignore[attr-defined]
        assert max(self.acknowledged(), default=-1) <= position <= self.offset

    def acknowledged(self) -> list[int]:
        answers = self.groups.answers
        return [
            offset
            for number, offset in self.asked.items()
            if number in answers and answers[number].errors[TP] is NONE
        ]


def ordeals(count: int, acks: int = ACKS_ALL) -> int:
    """Play so many, each from its own seed; returns how many commits were acknowledged."""
    acknowledged = 0
    for seed in range(count):
        ordeal = Ordeal(seed, acks)
        try:
            ordeal.run(60)
        except Exception as error:
            error.add_note(f"seed {seed}: " + "; ".join(ordeal.steps))
            raise
        acknowledged += len(ordeal.acknowledged())
    return acknowledged


def test_no_acknowledged_commit_is_lost() -> None:
    """Under any schedule of crashes, freezes and cuts."""
    assert ordeals(tries(40)) > 100, "a test in which nothing is committed shows nothing"


def test_commits_that_do_not_wait_are_lost() -> None:
    """Would the coordinator answer as soon as its own log has a record, the same schedules would show it."""
    with pytest.raises(AssertionError):
        ordeals(40, acks=1)


def test_members_through_failovers() -> None:
    """One assignment per generation, no commit of a removed member, no offset lost."""
    generations, commits = 0, 0
    for seed in range(tries(40)):
        ordeal = MembershipOrdeal(seed)
        try:
            ordeal.run(60)
        except Exception as error:
            error.add_note(f"seed {seed}: " + "; ".join(ordeal.steps))
            raise
        generations += len(ordeal.shares)
        commits += ordeal.acknowledged >= 0
    assert generations > 60, "a test in which no group comes to rest shows nothing"
    assert commits > 10
