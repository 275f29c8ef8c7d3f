"""Work that requests ask for, done in slices between which the event loop turns.

How much a request asks for is its client's choice: a frame of a megabyte may name a hundred thousand
partitions, a batch of ten kilobytes hold a million records. So whatever goes through what a client has
counted is a generator, and yields after each piece of it that takes some microseconds.

Rules of the file:

* Steps are begun at once, for ``SLICE_SECONDS``. Nearly all have ended by then.
* The others go on later, one slice a turn of the loop, and take turns. Only ``ACTIVE_MAX`` of them do, so
  that what they have made of their requests in memory is bounded; the others wait where they are.
* A step that yields a job has it done by a thread, and goes on when that is done.
* As long as something is left to do for a connection, it is not read from: its requests stay in order.
* Steps for a connection that is gone are dropped. (That of a client which leaves in the middle is not: it is
  not read from, so that nobody knows.)
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


class Client(Protocol):
    """A connection."""

    @property
    def gone(self) -> bool: ...

    def work_begun(self) -> None:
        """Something is left to do for it."""

    def work_ended(self) -> None: ...

    def failed(self, error: Exception) -> None:
        """Steps for it ended with this."""


class Slices:
    def __init__(self, metrics: Metrics, settle: Callable[[], None]) -> None:
        """``settle`` carries out what a slice made necessary."""
        self._metrics = metrics
        self._settle = settle
        self._clock = time.perf_counter
        self._active: deque[_Work] = deque()
        self._waiting: deque[_Work] = deque()
        self._delegated = 0
        """Active, too, but a thread's turn."""
        self._next_turn: asyncio.Handle | None = None

    def begin(self, client: Client, steps: StepsAndJobs[None]) -> None:
        """Do the first slice, and see to the others."""
        # As ``_advance`` does, but nearly always there is nothing to be kept for later.
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
        """Do one slice. True if that was the last; else it goes on, or a job must be done first."""
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

    def __init__(self, client: Client, steps: StepsAndJobs[None], job: Job | None) -> None:
        self.client = client
        self.steps = steps
        self.job = job
        """What a thread is to do before it goes on."""
