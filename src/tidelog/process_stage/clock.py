"""The scenario's clock: what clients go by, and what the times in a run mean.

It runs with real time, as many times faster as the trial is played, but stands still while the stage only
looks (snapshots, waiting for what is on its way). The brokers' own clocks do not stand still: for them more
time passes between two steps than for the scenario, and no scenario may need it to be the same.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.core.types import Millis
from tidelog.process_stage.pace import Pace

TICK_SECONDS = 0.002


class ScenarioClock:
    def __init__(self, loop: asyncio.AbstractEventLoop, pace: Pace) -> None:
        self._loop = loop
        self._pace = pace
        self._scenario_ms = 0.0
        self._since = loop.time()
        self._rate = 0.0
        """Scenario time that passes in a second of real time, in ms; 0: it stands still."""
        self._due: list[tuple[Millis, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        self._ticking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From 0."""
        self._scenario_ms, self._since = 0.0, self._loop.time()
        self._rate = 1000 / self._pace.factor
        self._ticking = self._loop.create_task(self._tick())

    def stop(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        self._due.clear()

    @property
    def now(self) -> Millis:
        return int(self._scenario_ms + (self._loop.time() - self._since) * self._rate)

    def call_at(self, at: Millis, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at, next(self._sequence), action))

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        rate = self._rate
        self._set_rate(0.0)
        try:
            yield
        finally:
            self._set_rate(rate)

    async def pass_time(self, duration: Millis) -> None:
        """Let so much scenario time pass."""
        end = self.now + duration
        while self.now < end:
            await asyncio.sleep(self._pace.seconds(end - self.now))
        self._run_due()

    def _set_rate(self, rate: float) -> None:
        self._scenario_ms += (self._loop.time() - self._since) * self._rate
        self._since = self._loop.time()
        self._rate = rate

    async def _tick(self) -> None:
        while True:
            self._run_due()
            await asyncio.sleep(TICK_SECONDS)

    def _run_due(self) -> None:
        while self._due and self._due[0][0] <= self.now:
            heapq.heappop(self._due)[2]()
