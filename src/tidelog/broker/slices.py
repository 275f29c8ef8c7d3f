"""Runs the work of requests in slices, between which the event loop serves others.

The client chooses how much work a request is: a frame of a megabyte may name a hundred thousand partitions, a
batch of ten kilobytes may hold a million records. So code that loops over a client's list is a generator, and
yields after every few microseconds of work.

Rules of the file:

* The first slice runs at once, for ``SLICE_SECONDS``. Nearly all work ends in it.
* The rest runs later, one slice per turn of the loop, in rotation. At most ``ACTIVE_MAX`` take part, which
  bounds their memory; the others wait.
* A step may yield a job: a thread runs it, and the step continues when the job is done.
* While a connection has unfinished work, it is not read: its requests stay in order.
* Work for a closed connection is dropped. (A client that disconnects in the middle is not noticed, because
  its connection is not read.)
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from tidelog.broker.metrics.counters import Metrics
from tidelog.storage.background import Job, StepsAndJobs

SLICE_SECONDS = 0.002
ACTIVE_MAX = 4


class SlicedConnection(Protocol):
    """A connection."""

    @property
    def gone(self) -> bool: ...

    def work_begun(self) -> None:
        """Work for this connection continues later."""

    def work_ended(self) -> None: ...

    def failed(self, error: Exception) -> None:
        """Work for this connection raised this error."""


class Slices:
    def __init__(self, metrics: Metrics, settle: Callable[[], None]) -> None:
        """``settle`` executes the effects of a slice."""
        self._metrics = metrics
        self._settle = settle
        self._clock = time.perf_counter
        self._active: deque[_Work] = deque()
        self._waiting: deque[_Work] = deque()
        self._delegated = 0
        """Active work whose job runs in a thread."""
        self._next_turn: asyncio.Handle | None = None

    def begin(self, client: SlicedConnection, steps: StepsAndJobs[None]) -> None:
        """Run the first slice, and schedule the rest."""
        # Like ``_advance``, but optimised for work that ends in the first slice.
        clock = self._clock
        until = clock() + SLICE_SECONDS
        try:
            for job in steps:
                if job is not None or clock() >= until:
                    break
            else:
                return
        except Exception as error:
            client.failed(error)
            return
        client.work_begun()
        work = _Work(client, steps, job)
        if job is None:
            self._waiting.append(work)
        else:
            self._delegate(work)
        self._schedule()

    def stop(self) -> None:
        if self._next_turn is not None:
            self._next_turn.cancel()
        self._active.clear()
        self._waiting.clear()

    # ------------------------------------------------------------ turns

    def _advance(self, work: _Work) -> bool:
        """Run one slice. True if it was the last; otherwise it continues, perhaps after a job."""
        until = self._clock() + SLICE_SECONDS
        try:
            for job in work.steps:
                if job is not None or self._clock() >= until:
                    work.job = job
                    return False
        except Exception as error:
            work.client.failed(error)
        return True

    def _schedule(self) -> None:
        while self._waiting and len(self._active) + self._delegated < ACTIVE_MAX:
            self._active.append(self._waiting.popleft())
        if self._active and self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._next_turn = None
        began = self._clock()
        work = self._active.popleft()
        if work.client.gone:
            work.steps.close()
            work.client.work_ended()
        elif self._advance(work):
            work.client.work_ended()
        elif work.job is not None:
            self._delegate(work)
        else:
            self._active.append(work)
        self._settle()
        self._metrics.loop_held(self._clock() - began)
        self._schedule()

    def _delegate(self, work: _Work) -> None:
        assert work.job is not None
        self._delegated += 1
        done = asyncio.get_running_loop().run_in_executor(None, work.job)
        work.job = None
        done.add_done_callback(lambda _: self._returned(work))

    def _returned(self, work: _Work) -> None:
        self._delegated -= 1
        self._active.append(work)
        self._schedule()


class _Work:
    __slots__ = ("client", "job", "steps")

    def __init__(self, client: SlicedConnection, steps: StepsAndJobs[None], job: Job | None) -> None:
        self.client = client
        self.steps = steps
        self.job = job
        """The job to run in a thread before the work continues."""
