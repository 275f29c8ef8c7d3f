"""What a coordinator keeps of members that came and went: nothing. A member's metadata may be megabytes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest
from tests.groups.desk import NONE, Desk

from tidelog.groups.group import Member
from tidelog.wire.errors import ErrorCode

ROUNDS = 500
LIVE_TIMERS_MAX = 128
"""A heap of so few is not tidied."""


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    """Brokers look for garbage rarely: nothing may depend on it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Members:
    """All members that are made while a test runs."""

    def __init__(self) -> None:
        self._made: list[weakref.ref[Member]] = []

    def made(self, member: Member) -> None:
        self._made.append(weakref.ref(member))

    @property
    def kept(self) -> int:
        return sum(made() is not None for made in self._made)

    @property
    def count(self) -> int:
        return len(self._made)


class WatchedMember(Member):
    """Can be referred to weakly."""

    __slots__ = ("__weakref__",)


@pytest.fixture
def members(monkeypatch: pytest.MonkeyPatch) -> Members:
    watched = Members()

    def make(*arguments: object, **named: object) -> Member:
        member = WatchedMember(*arguments, **named)  # type: ignore[arg-type]
        watched.made(member)
        return member

    monkeypatch.setattr("tidelog.groups.membership.Member", make)
    return watched


def timers(desk: Desk) -> int:
    return len(desk.coordinator._ctx.timers)


def join_sync_leave(desk: Desk) -> None:
    (joined,) = desk.form(None)
    assert desk.leave(joined.member_id) is NONE


def join_with_an_id_first(desk: Desk) -> None:
    given = desk.answers[desk.join(asks_for_id_first=True, session_timeout_ms=1_800_000)]
    assert given.error is ErrorCode.MEMBER_ID_REQUIRED
    joined = desk.joined(desk.join(given.member_id))
    assert desk.leave(joined.member_id) is NONE


def ask_for_an_id_and_leave(desk: Desk) -> None:
    given = desk.answers[desk.join(asks_for_id_first=True, session_timeout_ms=1_800_000)]
    assert desk.leave(given.member_id) is NONE


def be_refused(desk: Desk) -> None:
    refused = desk.answers[desk.join(session_timeout_ms=1)]
    assert refused.error is ErrorCode.INVALID_SESSION_TIMEOUT


def time_out(desk: Desk) -> None:
    desk.join(session_timeout_ms=6_000)
    desk.pass_time(7_000)
    assert desk.state == "Empty"


@pytest.mark.parametrize(
    "round_", [join_sync_leave, join_with_an_id_first, ask_for_an_id_and_leave, be_refused, time_out]
)
def test_members_that_are_gone_are_forgotten(members: Members, round_: Callable[[Desk], None]) -> None:
    """At once, and not when their session would have ended: neither they nor their timers are kept."""
    desk = Desk()
    for _ in range(ROUNDS):
        round_(desk)
    assert members.count in (0, ROUNDS)
    assert members.kept == 0
    assert timers(desk) <= LIVE_TIMERS_MAX


def test_rebalances_leave_no_timers(members: Members) -> None:
    """A member may allow others weeks to join again. A rebalance that ends sooner is over."""
    desk = Desk()
    joined = desk.joined(desk.join(rebalance_timeout_ms=2**31 - 1))
    for _ in range(ROUNDS):
        joined = desk.joined(
            desk.join(joined.member_id, rebalance_timeout_ms=2**31 - 1, protocols=[("range", b"other")])
        )
        joined = desk.joined(desk.join(joined.member_id, rebalance_timeout_ms=2**31 - 1))
    assert joined.generation > ROUNDS
    assert members.kept == 1
    assert timers(desk) <= LIVE_TIMERS_MAX


def test_a_member_that_stays_has_one_timer(members: Members) -> None:
    """However often it is heard of, with sessions of whatever length."""
    desk = Desk()
    joined = desk.joined(desk.join())
    for number in range(ROUNDS):
        joined = desk.joined(desk.join(joined.member_id, session_timeout_ms=1_800_000 - 1_000 * number))
        assert desk.heartbeat(joined) is NONE
        desk.pass_time(10)
    assert timers(desk) <= LIVE_TIMERS_MAX
