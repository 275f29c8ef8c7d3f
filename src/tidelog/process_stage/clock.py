"""The scenario's time on real processes.

Scenario files use seconds: sessions of six, checkpoints every five. On real processes all of them, the
settings of brokers, the time-outs of clients and the pauses of the scenario, pass faster by one factor, the
`Pace`, so that their order stays as it is. The speed of the machine cannot be scaled: the faster a scenario
is played, the less a broker may be delayed.

The `ScenarioClock` is what clients use, and what the times in a run mean. It follows real time at the pace,
but stops while the stage only looks (snapshots, waiting for messages on their way). The brokers' own clocks
do not stop: for them more time passes between two steps than for the scenario, and no scenario may need it to
be the same.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidelog.core.types import Millis

FACTORS = (0.25, 0.5, 1.0)
"""The first is for an idle machine: sessions take 1.5 s, within which a broker must be able to start. The
others are for when that was too fast."""
FACTOR_MIN, FACTOR_MAX = 0.05, 4.0
BUSY = (8.0, 24.0)
"""Runnable processes per core from which the second and the third factor are used."""


@dataclass(slots=True, frozen=True)
class Pace:
    factor: float = FACTORS[0]
    """Real seconds per second of the scenario."""

    def seconds(self, scenario_ms: float) -> float:
        return scenario_ms * self.factor / 1000

    def ms(self, scenario_ms: float) -> int:
        """As a setting: a whole number, at least 1."""
        return max(round(scenario_ms * self.factor), 1)

    def scenario_ms(self, seconds: float) -> Millis:
        return int(seconds * 1000 / self.factor)


def suitable_paces() -> list[Pace]:
    """The pace that this machine can keep now, and the slower ones to fall back on."""
    try:
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:
        load = 0.0
    first = sum(load > busy for busy in BUSY)
    return [Pace(factor) for factor in FACTORS[first:]]


TICK_SECONDS = 0.002


class ScenarioClock:
    def __init__(self, loop: asyncio.AbstractEventLoop, pace: Pace) -> None:
        self._loop = loop
        self._pace = pace
        self._scenario_ms = 0.0
        self._since = loop.time()
        self._rate = 0.0
        """Scenario time per second of real time, in ms; 0 while the clock is stopped."""
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
    def stopped(self) -> Iterator[None]:
        rate = self._rate
        self._set_rate(0.0)
        try:
            yield
        finally:
            self._set_rate(rate)

    async def pass_time(self, duration: Millis) -> None:
        """Wait until this much scenario time has passed."""
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
