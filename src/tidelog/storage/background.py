"""Work that would block the event loop, handed to whoever runs it: a thread pool, or nobody (inline).

The broker passes ``pool.submit``-like callables; tests and tools use ``inline``. A ``JobQueue`` keeps the
jobs of one owner in order and never runs two at once, however many threads there are, so that a file is
never written by two jobs and the last one asked for is the last one written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

Job = Callable[[], None]
Background = Callable[[Job], object]


def inline(job: Job) -> None:
    job()


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
