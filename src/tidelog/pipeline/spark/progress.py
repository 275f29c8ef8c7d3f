"""How many of Spark's tasks are done, told to whoever waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

_SAMPLE_S: Final = 0.5

Tell = Callable[[int, int], object]
"""Tasks that are done, and all tasks, of the stages that are being carried out."""


@contextmanager
def told(spark: Any, tell: Tell) -> Iterator[None]:
    """Tell now and then, as long as the context lasts."""
    ours = hasattr(spark, "_jsparkSession")
    with _asked(spark, tell) if ours else _told_by_server(spark, tell):
        yield


@contextmanager
def _asked(spark: Any, tell: Tell) -> Iterator[None]:
    """Spark runs in this process, and has to be asked."""
    over = threading.Event()

    def sample() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not over.wait(_SAMPLE_S):
            with suppress(Exception):  # a stage that ended between two questions
                found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                stages = [stage for stage in found if stage is not None]
                tell(sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages))

    sampler = threading.Thread(target=sample, name="spark-progress", daemon=True)
    sampler.start()
    try:
        yield
    finally:
        over.set()
        sampler.join()


@contextmanager
def _told_by_server(spark: Any, tell: Tell) -> Iterator[None]:
    """A Spark Connect server tells by itself, if somebody wants to hear it."""

    def heard(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        known = list(stages or ())
        tell(sum(s.num_completed_tasks for s in known), sum(s.num_tasks for s in known))

    spark.registerProgressHandler(heard)
    try:
        yield
    finally:
        spark.removeProgressHandler(heard)
