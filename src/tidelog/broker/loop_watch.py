"""How long the event loop was held: for that time nothing else was read, answered or kept alive.

A read event measures itself (``Connection``), and that is exact. What else runs on the loop is caught by a
timer that is due every ``TICK_SECONDS``: what holds the loop at that moment makes it late. Such a hold is
told too short by at most a tick, and one that is shorter than a tick may be missed.

On a crowded machine a loop is late also because others have the processor. So the timer looks at the
processor time of its thread, too: the loop's own work on the way to a late tick cannot have been more.
"""

from __future__ import annotations

import asyncio
import time

from tidelog.broker.metrics.counters import Metrics

TICK_SECONDS = 0.05
HOLD_SECONDS = 0.1
"""Held for longer than this, a loop is noticed by clients."""


class LoopWatch:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._wait()

    def stop(self) -> None:
        self._timer.cancel()

    def _wait(self) -> None:
        # Not the loop's own time, which stands still during a turn.
        self._due = time.monotonic() + TICK_SECONDS
        self._worked = time.thread_time()
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        late = time.monotonic() - self._due
        worked = min(late, time.thread_time() - self._worked)
        metrics = self._metrics
        metrics.loop_held(late)
        metrics.loop_worked_seconds_max = max(metrics.loop_worked_seconds_max, worked)
        metrics.loop_holds += late > HOLD_SECONDS
        self._wait()
