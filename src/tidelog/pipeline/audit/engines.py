"""Engines: run a function over pieces, somewhere. Kernels judge; an engine distributes, repeats and bounds.

`Local` is a pool of processes without Java, `OnSpark` one `mapInArrow` for each round. Both give the results
in the order of the pieces, so that nothing depends on who was faster.

Rules of the file: a function is one of a module's, its results are small. What fails in a worker comes back
as a `PipelineError` with the last line of the error: evidence that could not be read is never taken for
evidence without faults.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.pipeline.errors import PipelineError, worker_did_not_connect, worker_failure
from tidelog.pipeline.spark.progress import report_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Kernel = Callable[[Any, Any], Any]
"""Gets what all share, and a piece."""
Progress = Callable[[int], object]
"""Called with the number of pieces of this round that are done."""

_SERIAL_BYTES: Final = 4 << 20
_TASKS_PER_CORE: Final = 4
_TRIES: Final = 3
"""Of a job whose workers do not start in time."""


class Engine(Protocol):
    def run(
        self, kernel: Kernel, shared: Any, pieces: Sequence[Any], progress: Progress = lambda done: None
    ) -> list[Any]: ...


def bytes_of(pieces: Sequence[Any]) -> int:
    return sum(getattr(piece, "bytes", 0) for piece in pieces)


def _serially(kernel: Kernel, shared: Any, pieces: Sequence[Any], progress: Progress) -> list[Any]:
    found = []
    for number, piece in enumerate(pieces):
        found.append(kernel(shared, piece))
        progress(number + 1)
    return found


# ---------------------------------------------------------------- processes


class Local:
    """Small work is done here; more of it by as many processes as there are cores."""

    def __init__(self, processes: int | None = None) -> None:
        self._processes = processes or len(os.sched_getaffinity(0))

    def run(
        self, kernel: Kernel, shared: Any, pieces: Sequence[Any], progress: Progress = lambda done: None
    ) -> list[Any]:
        if self._processes == 1 or len(pieces) < 2 or bytes_of(pieces) < _SERIAL_BYTES:
            return _serially(kernel, shared, pieces, progress)
        global _given  # noqa: PLW0603
        # Children are forked: what all share is theirs without being copied.
        _given = (kernel, shared)
        found = []
        try:
            with ProcessPoolExecutor(
                self._processes, get_context("fork"), _end_with_parent, (os.getpid(),)
            ) as pool:
                try:
                    for number, result in enumerate(pool.map(_call, pieces)):
                        found.append(pickle.loads(result))
                        progress(number + 1)
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
        finally:
            _given = None
        return found


def _end_with_parent(parent: int) -> None:
    """Children of a process that is killed would wait for ever, and hold the lock of the evidence."""
    with suppress(OSError, AttributeError):  # Linux has it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


_PR_SET_PDEATHSIG: Final = 1
_given: tuple[Kernel, Any] | None = None


def _call(piece: Any) -> bytes:
    assert _given is not None
    kernel, shared = _given
    return pickle.dumps(kernel(shared, piece), pickle.HIGHEST_PROTOCOL)


# ---------------------------------------------------------------- Spark


class OnSpark:
    """Each step is one job: numbers of pieces go to the workers, results come back as blobs. What is small is
    done here, unless the kernel has `on_workers`: a job costs more."""

    def __init__(self, spark: SparkSession, *, cores: int | None = None) -> None:
        self._spark = spark
        self._cores = cores or _cores(spark)

    def run(
        self, kernel: Kernel, shared: Any, pieces: Sequence[Any], progress: Progress = lambda done: None
    ) -> list[Any]:
        if not pieces:
            return []
        if bytes_of(pieces) < _SERIAL_BYTES and not getattr(kernel, "on_workers", False):
            return _serially(kernel, shared, pieces, progress)
        tasks = max(1, min(len(pieces), _TASKS_PER_CORE * self._cores))
        work = partial(_work, pickle.dumps((kernel, shared), pickle.HIGHEST_PROTOCOL), list(pieces))
        found: list[Any] = [None] * len(pieces)

        def tell(done: int, all_: int) -> None:
            progress(done * len(pieces) // all_ if all_ else 0)

        for left in reversed(range(_TRIES)):
            try:
                table = self._spark.range(0, len(pieces), 1, tasks)
                with report_tasks(self._spark, tell):
                    for number, result in table.mapInArrow(work, "number long, result binary").collect():
                        found[number] = pickle.loads(bytes(result))
                break
            except Exception as error:  # Spark's errors share no class: Java's, py4j's, gRPC's and its own
                if not left or not worker_did_not_connect(error):
                    raise PipelineError(worker_failure("the evidence cannot be read", error)) from error
        progress(len(pieces))
        return found


def _work(given: bytes, pieces: list[Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    kernel, shared = pickle.loads(given)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            result = pickle.dumps(kernel(shared, pieces[number]), pickle.HIGHEST_PROTOCOL)
            yield pa.RecordBatch.from_arrays(
                [pa.array([number], pa.int64()), pa.array([result], pa.binary())], names=["number", "result"]
            )


def _cores(spark: SparkSession) -> int:
    with suppress(Exception):
        return int(spark.sparkContext.defaultParallelism)
    return 4
