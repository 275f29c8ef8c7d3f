"""Blocking work, moved out of the event loop into a thread pool, or run inline.

The broker passes ``pool.submit``-like callables; tests and tools use ``inline``. A ``JobQueue`` keeps the
jobs of one owner in order and never runs two at once, however many threads there are. So two jobs never write
one file at the same time, and the last write requested is the last one made.

Long work that reads state of the event loop must stay in the loop. It is written as ``Steps``: a generator
that the loop resumes when it has time. ``StepsAndJobs`` also yield jobs, and are resumed when a thread has
run them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice
from threading import Lock
from typing import TypeVar

T = TypeVar("T")
Job = Callable[[], None]
Background = Callable[[Job], object]
Steps = Generator[None, None, T]
StepsAndJobs = Generator[Job | None, None, T]

_LISTED_AT_ONCE = 50
"""As many as take about a hundred microseconds."""


def inline(job: Job) -> None:
    job()


def in_thread(work: Callable[[], T]) -> StepsAndJobs[T]:
    """Use with ``yield from``: runs ``work`` in a thread, and returns its result or raises its exception."""
    found: Future[T] = Future()

    def job() -> None:
        try:
            found.set_result(work())
        except Exception as error:
            found.set_exception(error)

    yield job
    return found.result()


def finished(steps: StepsAndJobs[T]) -> T:
    """Run all steps and jobs in this thread and return the result: for tests and tools."""
    while True:
        try:
            job = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if job is not None:
            job()


def listed(items: Iterable[T]) -> Steps[list[T]]:
    """Use with ``yield from``: ``list(items)`` in steps, for very many items."""
    rest = iter(items)
    found = list(islice(rest, _LISTED_AT_ONCE))
    more = len(found) == _LISTED_AT_ONCE
    while more:
        yield
        part = list(islice(rest, _LISTED_AT_ONCE))
        found += part
        more = len(part) == _LISTED_AT_ONCE
    return found


class JobQueue:
    __slots__ = ("_background", "_executing", "_failed", "_jobs")

    def __init__(self, background: Background, failed: Callable[[OSError], None]) -> None:
        self._background = background
        self._failed = failed
        self._jobs: deque[Job] = deque()
        self._executing = Lock()

    def submit(self, job: Job) -> None:
        self._jobs.append(job)
        # A pool that was shut down refuses jobs: then ``finish`` runs the rest.
        with suppress(RuntimeError):
            self._background(self._run)

    def _run(self) -> None:
        """Run the queued jobs, unless another thread does: that thread looks again after its last job."""
        while self._jobs and self._executing.acquire(blocking=False):
            try:
                self._run_queued()
            finally:
                self._executing.release()

    def finish(self) -> None:
        """Run the queued jobs in this thread. Waits for a job that another thread is running."""
        with self._executing:
            self._run_queued()

    def _run_queued(self) -> None:
        while self._jobs:
            try:
                self._jobs.popleft()()
            except OSError as error:
                self._failed(error)
