"""Deadlines of one broker. The owner asks the world for the earliest wake-up only.

A callback that is no longer needed simply finds nothing to do: cancelling costs more than ignoring.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from tidelog.core.types import Millis

Callback = Callable[[Millis], None]


class Timers:
    __slots__ = ("_heap", "_sequence", "_wanted")

    def __init__(self) -> None:
        self._heap: list[tuple[Millis, int, Callback]] = []
        self._sequence = 0
        self._wanted: Millis | None = None

    def set(self, at: Millis, callback: Callback) -> Millis | None:
        """Call ``callback`` at ``at``. Returns the time to be woken at if the world must be told."""
        self._sequence += 1
        heappush(self._heap, (at, self._sequence, callback))
        if self._wanted is None or at < self._wanted:
            self._wanted = at
            return at
        return None

    def fire(self, now: Millis) -> Millis | None:
        """Run everything due. Returns the next time to be woken at, if any."""
        heap = self._heap
        self._wanted = now  # nothing that is set while firing needs to be announced twice
        while heap and heap[0][0] <= now:
            heappop(heap)[2](now)
        self._wanted = heap[0][0] if heap else None
        return self._wanted
