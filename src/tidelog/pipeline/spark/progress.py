"""Progress of Spark: how many tasks are done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

_SAMPLE_S: Final = 0.5

Report = Callable[[int, int], object]
"""Gets the number of finished tasks and of all tasks, of the active stages."""


@contextmanager
def report_tasks(spark: Any, report: Report) -> Iterator[None]:
    """Call `report` periodically inside the context."""
    local = hasattr(spark, "_jsparkSession")
    with _poll_tracker(spark, report) if local else _handle_progress(spark, report):
        yield


@contextmanager
def _poll_tracker(spark: Any, report: Report) -> Iterator[None]:
    """Spark runs in this process: poll its status tracker."""
    over = threading.Event()

    def sample() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not over.wait(_SAMPLE_S):
            with suppress(Exception):  # a stage may end between the two calls
                found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                stages = [stage for stage in found if stage is not None]
                report(sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages))

    sampler = threading.Thread(target=sample, name="spark-progress", daemon=True)
    sampler.start()
    try:
        yield
    finally:
        over.set()
        sampler.join()


@contextmanager
def _handle_progress(spark: Any, report: Report) -> Iterator[None]:
    """A Spark Connect server sends progress to a handler."""

    def handle(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        known = list(stages or ())
        report(sum(s.num_completed_tasks for s in known), sum(s.num_tasks for s in known))

    spark.registerProgressHandler(handle)
    try:
        yield
    finally:
        spark.removeProgressHandler(handle)
