"""Sequential work over an asynchronous keeper, without threads: Kafka's controller event thread.

A task is a generator that yields keeper operations and is resumed with their results, so a procedure of
many steps reads from top to bottom. Tasks of one queue run strictly one after the other; while one waits
for the keeper, later ones queue. Work that need not wait its turn uses ``KeeperClient.call`` directly.

A task may end early: its queue is cancelled (the session is over), another controller is elected
(``Deposed``), the keeper refuses for a reason of its own (``REFUSED``), or it fails. A submitter that must
send an answer passes ``abandoned`` for that case. The tasks behind it run in any case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import TypeVar

from tidelog.core.context import Context
from tidelog.core.keeper_port import KeeperError, KeeperReply, Operation, Result
from tidelog.core.types import InvariantViolation, immutable


@immutable
class Together:
    """Several operations that need not wait for one another, in this order. ``Result.value`` is the list of
    their results; it is itself never an error."""

    operations: tuple[Operation, ...]


A = TypeVar("A")
Procedure = Generator[Operation | Together, Result, A]
"""A part of a task that returns a value."""
Task = Procedure[None]


class KeeperClient:
    """Numbers the calls, remembers the unanswered ones, and repeats them when the connection resumes."""

    __slots__ = ("_ctx", "_next", "_unanswered")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._next = 0
        self._unanswered: dict[int, tuple[Operation, Callable[[Result], None]]] = {}

    def call(self, operation: Operation, then: Callable[[Result], None]) -> None:
        self._next = number = self._next + 1
        self._unanswered[number] = (operation, then)
        self._ctx.call_keeper(number, operation)

    def call_together(self, operations: tuple[Operation, ...], then: Callable[[Result], None]) -> None:
        results: list[Result] = []

        def answered(result: Result) -> None:
            results.append(result)  # in order: the keeper answers a session's calls one after the other
            if len(results) == len(operations):
                then(Result(None, results))

        for operation in operations:
            self.call(operation, answered)
        if not operations:
            then(Result(None, results))

    def answered(self, reply: KeeperReply) -> None:
        waiting = self._unanswered.pop(reply.call, None)
        if waiting is not None:
            waiting[1](reply.result)

    def unexpected(self, error: Exception) -> None:
        self._ctx.unexpected(error)

    def resend(self) -> None:
        """The client reconnected within the session: repeat unanswered calls. A repeated write may find its
        own result."""
        for call, (operation, _) in self._unanswered.items():
            self._ctx.call_keeper(call, operation)

    def forget(self) -> None:
        self._unanswered.clear()


class Job:
    __slots__ = ("abandoned", "task")

    def __init__(self, task: Callable[[], Task], abandoned: Callable[[], None] | None) -> None:
        self.task = task
        self.abandoned = abandoned


class TaskQueue:
    __slots__ = ("_job", "_keeper", "_on_deposed", "_running", "_waiting")

    def __init__(self, keeper: KeeperClient, on_deposed: Callable[[], None] | None = None) -> None:
        """Only a controller's tasks can be ``Deposed``."""
        self._keeper = keeper
        self._on_deposed = on_deposed
        self._waiting: deque[Job] = deque()
        self._running: Task | None = None
        self._job: Job | None = None

    def submit(self, task: Callable[[], Task], abandoned: Callable[[], None] | None = None) -> Job:
        """``abandoned`` is called if the task does not run to its end."""
        job = Job(task, abandoned)
        self._waiting.append(job)
        if self._running is None:
            self._next()
        return job

    def waits_last(self, job: Job | None) -> bool:
        """Whether a task is the last in the queue: work added to it now still runs in order."""
        return bool(self._waiting) and self._waiting[-1] is job

    def cancel(self) -> None:
        """Drop the running task and everything behind it."""
        dropped = list(self._waiting)
        self._waiting.clear()
        running, self._running = self._running, None
        if running is not None:
            running.close()
            if self._job is not None:
                dropped.insert(0, self._job)
        for job in dropped:
            if job.abandoned is not None:
                job.abandoned()

    def _next(self) -> None:
        while self._running is None and self._waiting:
            self._job = self._waiting.popleft()
            self._running = self._job.task()
            self._resume(self._running, None)

    def _resume(self, task: Task, result: Result | None) -> None:
        if task is not self._running:
            return
        try:
            step = task.send(result)  # type: ignore[arg-type]  # None starts a generator
        except StopIteration:
            self._running = None
        except Deposed:
            self._running = None
            if self._on_deposed is None:
                raise
            self._on_deposed()
            self._abandon()
        except InvariantViolation:
            raise
        except Exception as error:
            self._running = None
            self._abandon()
            self._keeper.unexpected(error)
        else:
            if isinstance(step, Together):
                self._keeper.call_together(step.operations, partial(self._continue, task))
            else:
                self._keeper.call(step, partial(self._continue, task))

    def _abandon(self) -> None:
        if self._job is not None and self._job.abandoned is not None:
            self._job.abandoned()

    def _continue(self, task: Task, result: Result) -> None:
        if task is self._running and _is_refused(result):
            # No task knows what to do then, and some would try again at once, for ever.
            self._running = None
            task.close()
            self._abandon()
        else:
            self._resume(task, result)
        if self._running is None and self._waiting:
            self._next()


def _is_refused(result: Result) -> bool:
    if result.error is KeeperError.REFUSED:
        return True
    together = result.value
    return type(together) is list and any(
        isinstance(each, Result) and each.error is KeeperError.REFUSED for each in together
    )


class Deposed(Exception):
    """The keeper refused a write of this controller: another one has been elected."""
