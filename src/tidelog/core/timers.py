"""Deadlines of one broker. The owner only asks the driver for the earliest wake-up.

A callback that is no longer needed may find nothing to do, which is cheaper than cancelling it. A timer is
cancelled if it would keep an object in memory, or if clients can set any number of them. A cancelled callback
is dropped at once, and its entry in the heap when the heap has doubled.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from tidelog.core.types import InvariantViolation, Millis

Callback = Callable[[Millis], None]
Unexpected = Callable[[Exception], None]
"""Handles an unexpected exception."""


def raised(error: Exception) -> None:
    raise error


TIDIED_FROM = 64
"""Smaller heaps are not cleaned."""


class Timer:
    __slots__ = ("_callback", "at")

    def __init__(self, at: Millis, callback: Callback) -> None:
        self.at = at
        self._callback: Callback | None = callback

    def cancel(self) -> None:
        self._callback = None

    @property
    def cancelled(self) -> bool:
        return self._callback is None

    def fire(self, now: Millis) -> None:
        if self._callback is not None:
            self._callback(now)


class Timers:
    __slots__ = ("_heap", "_sequence", "_tidied_at", "_wanted")

    def __init__(self) -> None:
        self._heap: list[tuple[Millis, int, Timer]] = []
        self._sequence = 0
        self._wanted: Millis | None = None
        self._tidied_at = TIDIED_FROM
        """The size of the heap at which cancelled timers are removed."""

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, timer: Timer) -> Millis | None:
        """Returns the new wake-up time, or None if an earlier one is already set."""
        self._sequence += 1
        heappush(self._heap, (timer.at, self._sequence, timer))
        if len(self._heap) >= self._tidied_at:
            self._tidy()
        if self._wanted is None or timer.at < self._wanted:
            self._wanted = timer.at
            return timer.at
        return None

    def _tidy(self) -> None:
        """In place: this may be called from within ``fire``."""
        self._heap[:] = [entry for entry in self._heap if not entry[2].cancelled]
        heapify(self._heap)
        self._tidied_at = max(2 * len(self._heap), TIDIED_FROM)

    def fire(self, now: Millis, unexpected: Unexpected = raised) -> Millis | None:
        """Run all due callbacks. Returns the next wake-up time, if any. A failed callback does not affect the
        others: without them the owner might never be woken again. What a callback sets for now waits for the
        next call: otherwise one that sets itself again and again would never return."""
        heap = self._heap
        self._wanted = now  # nothing that is set while firing needs to be announced twice
        due = []
        while heap and heap[0][0] <= now:
            due.append(heappop(heap)[2])
        for timer in due:
            try:
                timer.fire(now)
            except InvariantViolation:
                raise
            except Exception as error:
                unexpected(error)
        self._wanted = heap[0][0] if heap else None
        return self._wanted
