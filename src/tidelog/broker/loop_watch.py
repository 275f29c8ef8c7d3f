"""Measures how long the event loop was blocked: meanwhile nothing else is read, answered or kept alive.

A read event measures itself exactly (``Connection``). Other work on the loop is detected by a timer that is
due every ``TICK_SECONDS``: work that blocks the loop makes the timer late. The measured time is too short by
at most a tick, and a block shorter than a tick may be missed.

On a busy machine a loop is also late because other processes have the processor. So the timer also reads the
processor time of its thread, which is an upper bound of the loop's own work.
"""

from __future__ import annotations

import asyncio
import time

from tidelog.broker.metrics.counters import Metrics

TICK_SECONDS = 0.05
HOLD_SECONDS = 0.1
"""Clients notice a loop that is blocked for longer than this."""


class LoopWatch:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._wait()

    def stop(self) -> None:
        self._timer.cancel()

    def _wait(self) -> None:
        # Not the loop's cached time, which does not advance during a turn.
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
