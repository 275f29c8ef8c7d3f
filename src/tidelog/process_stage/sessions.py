"""Expiry of keeper sessions by the scenario's clock, as in the lab.

A keeper counts from the last heartbeat that it read, which may be shortly before or after the fault, and it
counts real time, also while the scenario's clock is stopped. Either could change the order of a time-out and
another event. So after a fault the keeper keeps the session, whatever it still reads on it, and expires it
one time-out after the fault in scenario time. Sessions that expire at the same moment expire in one change:
a controller never sees one of two brokers gone and the other still registered.

Without a majority of its members the keeper expires no session. When it has one again, every session gets the
full time-out.
"""

from __future__ import annotations

from tidelog.core.types import Millis
from tidelog.keeper.embedded.server import EmbeddedKeeper
from tidelog.process_stage.clock import ScenarioClock


class Sessions:
    def __init__(self, keeper: EmbeddedKeeper, clock: ScenarioClock, timeout_ms: Millis) -> None:
        self._keeper = keeper
        self._clock = clock
        self._timeout = timeout_ms
        self._ends: dict[int, Millis] = {}
        """When each silent session expires."""
        self._replaced: set[int] = set()
        self._has_majority = True

    def silent(self, session: int | None, since: Millis) -> None:
        """The broker has not renewed this session since a moment. Ignored if it is silent already."""
        if session is None or session in self._ends:
            return
        self._keeper.keep(session)
        self._count(session, since)

    def heard(self, session: int | None, heard_at: float) -> None:
        """The broker renews the session again, since a moment of the keeper's own clock."""
        if session is None or session in self._replaced or session not in self._ends:
            return
        del self._ends[session]
        self._keeper.let_go(session, heard_at)

    def expire_after_restart(self, session: int | None) -> None:
        """The process has ended, and the one that replaces it opens another session."""
        if session is not None:
            self._replaced.add(session)

    def majority(self, *, exists: bool, now: Millis) -> None:
        formed = exists and not self._has_majority
        self._has_majority = exists
        if formed:
            for session in self._ends:
                self._count(session, now)

    def _count(self, session: int, since: Millis) -> None:
        self._ends[session] = since + self._timeout
        self._clock.call_at(self._ends[session], self._end_those_due)

    def _end_those_due(self) -> None:
        if not self._has_majority:
            return
        now = self._clock.now
        due = [session for session, at in self._ends.items() if at <= now]
        for session in due:
            del self._ends[session]
        self._keeper.expire(sorted(due))
