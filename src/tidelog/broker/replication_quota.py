"""A quota: how many bytes a second may pass, over a window of the last seconds.

What passed is counted in samples of one second, and the rate is taken over the last eleven of them, as in
Kafka (KIP-73): ten whole ones and the one that is under way. Nothing that passes is cut: the quota says
whether more may follow. So what passes in a window is what the quota allows, and one piece more.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from tidelog.core.types import Millis
from tidelog.settings.kinds import LONG_MAX

SAMPLE_MS: Final[Millis] = 1_000
SAMPLES: Final = 11
UNLIMITED: Final = LONG_MAX


class Quota:
    __slots__ = ("_samples", "_total", "rate")

    def __init__(self, rate: int = UNLIMITED) -> None:
        self.rate = rate
        """Bytes per second."""
        self._samples: deque[list[int]] = deque()
        """The beginning of each in milliseconds, and its bytes; the oldest first."""
        self._total = 0

    def add(self, size: int, now: Millis) -> None:
        samples = self._samples
        if not samples or now >= samples[-1][0] + SAMPLE_MS:
            samples.append([now, 0])
        samples[-1][1] += size
        self._total += size
        self._drop_old(now)

    def is_exceeded(self, now: Millis) -> bool:
        self._drop_old(now)
        return self._total * 1_000 > self.rate * self._elapsed(now)

    def wait_ms(self, now: Millis) -> Millis:
        """When to look again: the rate falls with time, and when a sample grows old."""
        if not self.is_exceeded(now):
            return 0
        if not self.rate:
            return SAMPLE_MS
        until_low = -(-self._total * 1_000 // self.rate) - self._elapsed(now)
        return min(until_low, SAMPLE_MS)

    def _elapsed(self, now: Millis) -> Millis:
        """The time over which the bytes passed: at least one sample, so that a first piece is no rate."""
        return max(now - self._samples[0][0], SAMPLE_MS) if self._samples else SAMPLE_MS

    def _drop_old(self, now: Millis) -> None:
        samples = self._samples
        while samples and samples[0][0] <= now - SAMPLES * SAMPLE_MS:
            self._total -= samples.popleft()[1]
