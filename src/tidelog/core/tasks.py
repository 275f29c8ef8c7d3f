"""Sequential work over an asynchronous keeper, without threads: Kafka's controller event thread.

A task is a generator that yields keeper operations and is resumed with their results, so a procedure of
many steps reads from top to bottom. Tasks of one broker run strictly one after the other; while one waits
for the keeper, later ones queue. Work that need not wait its turn uses ``KeeperClient.call`` directly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator

from tidelog.core.context import Context
from tidelog.core.coordination import KeeperReply, Operation, Result
from tidelog.core.effects import KeeperCall

Task = Generator[Operation, Result, None]


class KeeperClient:
    """Numbers the calls, remembers the unanswered ones, and repeats them when the connection resumes."""

    __slots__ = ("_ctx", "_next", "_unanswered")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._next = 0
        self._unanswered: dict[int, tuple[Operation, Callable[[Result], None]]] = {}

    def call(self, operation: Operation, then: Callable[[Result], None]) -> None:
        self._next += 1
        self._unanswered[self._next] = (operation, then)
        self._ctx.effects.append(KeeperCall(self._next, operation))

    def answered(self, reply: KeeperReply) -> None:
        waiting = self._unanswered.pop(reply.call, None)
        if waiting is not None:
            waiting[1](reply.result)

    def resend(self) -> None:
        """The connection is back within the session. A repeated write may find its own traces."""
        for call, (operation, _) in self._unanswered.items():
            self._ctx.effects.append(KeeperCall(call, operation))

    def forget(self) -> None:
        self._unanswered.clear()


class TaskQueue:
    __slots__ = ("_keeper", "_on_deposed", "_running", "_waiting")

    def __init__(self, keeper: KeeperClient, on_deposed: Callable[[], None]) -> None:
        self._keeper = keeper
        self._on_deposed = on_deposed
        self._waiting: deque[Callable[[], Task]] = deque()
        self._running: Task | None = None

    def submit(self, task: Callable[[], Task]) -> None:
        self._waiting.append(task)
        if self._running is None:
            self._next()

    def cancel(self) -> None:
        """Drop the running task and everything behind it."""
        self._waiting.clear()
        running, self._running = self._running, None
        if running is not None:
            running.close()

    def _next(self) -> None:
        while self._running is None and self._waiting:
            self._running = self._waiting.popleft()()
            self._resume(self._running, None)

    def _resume(self, task: Task, result: Result | None) -> None:
        if task is not self._running:
            return
        try:
            operation = task.send(result)  # type: ignore[arg-type]  # None starts a generator
        except StopIteration:
            self._running = None
        except Deposed:
            self._running = None
            self._on_deposed()
        else:
            self._keeper.call(operation, lambda answer: self._continue(task, answer))

    def _continue(self, task: Task, result: Result) -> None:
        self._resume(task, result)
        self._next()


class Deposed(Exception):
    """The keeper refused a write of this controller: another one has been elected."""
