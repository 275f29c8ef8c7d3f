"""Work that would block the event loop, handed to whoever runs it: a thread pool, or nobody (inline).

The broker passes ``pool.submit``-like callables; tests and tools use ``inline``. A ``JobQueue`` keeps the
jobs of one owner in order and never runs two at once, however many threads there are, so that a file is
never written by two jobs and the last one asked for is the last one written.

Work that takes long and must not leave the event loop, because it looks at what the loop changes, is done in
``Steps``: a generator that the loop resumes whenever it has time. ``StepsAndJobs`` also yield what a thread
is to do before they go on.
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
"""What is made in a hundred microseconds."""


def inline(job: Job) -> None:
    job()


def in_thread(work: Callable[[], T]) -> StepsAndJobs[T]:
    """To be yielded from: what a thread found out, or the exception that it ended with."""
    found: Future[T] = Future()

    def job() -> None:
        try:
            found.set_result(work())
        except Exception as error:
            found.set_exception(error)

    yield job
    return found.result()


def finished(steps: StepsAndJobs[T]) -> T:
    """What they come to, with everything done here: for tests and tools."""
    while True:
        try:
            job = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if job is not None:
            job()


def listed(items: Iterable[T]) -> Steps[list[T]]:
    """To be yielded from: all of them, when there may be very many. Few are listed at once."""
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
        # A pool that was shut down takes nothing more: then ``finish`` runs what is left.
        with suppress(RuntimeError):
            self._background(self._run)

    def _run(self) -> None:
        """Run what is queued, unless another thread is at it: that one looks again after its last job."""
        while self._jobs and self._executing.acquire(blocking=False):
            try:
                self._run_queued()
            finally:
                self._executing.release()

    def finish(self) -> None:
        """Run what is queued here, after the job that a thread may be busy with."""
        with self._executing:
            self._run_queued()

    def _run_queued(self) -> None:
        while self._jobs:
            try:
                self._jobs.popleft()()
            except OSError as error:
                self._failed(error)
