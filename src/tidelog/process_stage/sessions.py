"""When the keeper gives a broker up that nobody hears any more: by the scenario's clock, as in the lab.

A keeper counts from the last heartbeat that it read, which is a moment before the fault or, if one was still
on its way, after it; and it counts real time, also while the scenario only looks. Either would let a time-out
come before something that it comes after in the lab. So from a fault on the session is kept, whatever the
keeper still reads of it, and it ends its time-out after the fault. Sessions that end at the same moment end
at once: a controller never sees one of two brokers gone and the other still there.

Without a majority of the keeper's members there is nobody to say that a session is over; when there is one
again, everybody gets the full time.
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
        """When the time of each silent session is up."""
        self._forsaken: set[int] = set()
        self._has_majority = True

    def silent(self, session: int | None, since: Millis) -> None:
        """Nobody renews this session from a moment on, if that was not so before."""
        if session is None or session in self._ends:
            return
        self._keeper.keep(session)
        self._count(session, since)

    def heard(self, session: int | None, heard_at: float) -> None:
        """Its broker is heard again, from a moment of the keeper's own clock on."""
        if session is None or session in self._forsaken or session not in self._ends:
            return
        del self._ends[session]
        self._keeper.let_go(session, heard_at)

    def forsake(self, session: int | None) -> None:
        """The process is gone, and the one that takes its place does not have its session."""
        if session is not None:
            self._forsaken.add(session)

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
