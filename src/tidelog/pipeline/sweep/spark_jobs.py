"""Spark plays the trials: one task is a few seconds of them, and leaves one whole file.

The plan travels with the function; a row of the range is the number of a task. Files are committed task by
task (the committer's second algorithm renames each task's file into place when the task ends), so whatever
happens to the job, what was played is there and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.spark.progress import report_tasks
from tidelog.pipeline.sweep.player import PATIENCE_S, Block, play_guarded
from tidelog.pipeline.sweep.rows import as_arrow, spark_schema
from tidelog.pipeline.sweep.store import Store

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
    from pyspark.sql import SparkSession

TASK_S = 3.0
"""How long a task should take: long enough that starting it does not matter, short enough that little is
lost when the job is killed."""

Task = tuple[Block, ...]


def tasks_of(blocks: Sequence[Block], trials_per_task: int) -> list[Task]:
    """Pieces of about the same number of trials: large blocks are cut, small ones put together."""
    tasks: list[Task] = []
    pending: list[Block] = []
    room = trials_per_task
    for block in blocks:
        first = block.first
        while first < block.end:
            end = min(block.end, first + room)
            pending.append(Block(block.cell, first, end))
            room -= end - first
            first = end
            if room == 0:
                tasks.append(tuple(pending))
                pending, room = [], trials_per_task
    if pending:
        tasks.append(tuple(pending))
    return tasks


def play_on_spark(
    spark: SparkSession,
    store: Store,
    tasks: Sequence[Task],
    *,
    done: Callable[[int], object] = lambda trials: None,
    patience_s: float = PATIENCE_S,
) -> None:
    """Play them all. ``done`` is called with the number of finished trials. Raises `PipelineError`."""
    plan = list(tasks)

    def play(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from as_arrow(play_guarded(plan[number], patience_s))

    numbers = spark.range(0, len(plan), 1, len(plan))
    writer = (
        numbers.mapInArrow(play, spark_schema())
        .write.mode("append")
        .option("mapreduce.fileoutputcommitter.algorithm.version", "2")
    )
    sizes = [sum(block.size for block in task) for task in plan]
    with report_tasks(spark, lambda tasks, _: done(sum(sizes[:tasks]))):
        try:
            writer.parquet(str(store.trials.absolute()))
        except Exception as error:  # Spark's errors share no class
            raise PipelineError(f"the sweep stopped: {first_line(error)}") from error
