"""How long the event loop was held is measured, by whatever holds it."""

import asyncio
import time
from collections.abc import Callable

import uvloop

from tidelog.broker.loop_watch import TICK_SECONDS, LoopWatch
from tidelog.broker.metrics.counters import Metrics

HELD_SECONDS = 0.25


def work(seconds: float) -> None:
    """Use the processor for this time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def watched(hold: Callable[[], None]) -> Metrics:
    """What is measured when something holds the loop, once that has been noticed."""
    metrics = Metrics()

    async def run() -> None:
        watch = LoopWatch(metrics)
        hold()
        while not metrics.loop_holds:
            await asyncio.sleep(0)
        watch.stop()

    uvloop.run(run())
    return metrics


def test_work_on_the_loop_is_seen_and_counted():
    """Measured too short by at most a tick, in time and in processor time."""
    metrics = watched(lambda: work(HELD_SECONDS))
    assert metrics.loop_worked_seconds_max > HELD_SECONDS - 1.1 * TICK_SECONDS
    assert metrics.loop_held_seconds_max >= metrics.loop_worked_seconds_max


def test_a_loop_that_was_kept_from_working_did_not_work():
    """It is held all the same."""
    metrics = watched(lambda: time.sleep(HELD_SECONDS))
    assert metrics.loop_held_seconds_max > HELD_SECONDS - 1.1 * TICK_SECONDS
    assert metrics.loop_worked_seconds_max < HELD_SECONDS / 2
