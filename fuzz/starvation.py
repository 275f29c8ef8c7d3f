"""How long processes waited for a processor: a broker that is not let run cannot answer.

The kernel counts for each thread the time in which it could have run and was not (`/proc/PID/schedstat`, the
second number). A limit of seconds is held against the time that a broker *had*: what passed, less what it
waited. On a machine at rest that is the same. On one where much else runs, a broker that holds its loop still
exceeds its limit, and one that was not let run does not. Where the kernel does not count, nothing is
subtracted.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path

_NANOSECONDS = 1_000_000_000


def waited_seconds(pid: int) -> float:
    """The time that the main thread of a process has waited for a processor so far."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / _NANOSECONDS
    except (OSError, ValueError, IndexError):
        return 0.0


class Starvation:
    """What some processes waited, looked at now and then."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = list(pids)
        self._times: list[float] = []
        self._waited: list[list[float]] = []

    def look(self) -> None:
        self._times.append(time.monotonic())
        self._waited.append([waited_seconds(pid) for pid in self._pids])

    def within(self, began: float, seconds: float) -> float:
        """The longest that any of them waited in that time, at most all of it. Looked at from the look before
        it to the one after: too much rather than too little, by up to the time between two looks."""
        if not self._times:
            return 0.0
        first = max(bisect_right(self._times, began) - 1, 0)
        last = min(bisect_left(self._times, began + seconds), len(self._times) - 1)
        before, after = self._waited[first], self._waited[last]
        return min(max((b - a for a, b in zip(before, after, strict=False)), default=0.0), seconds)
