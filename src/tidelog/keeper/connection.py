"""The common part of all connections to a keeper: pending requests and pending watches.

An adapter inherits ``KeeperConnectionBase``, executes operations in ``_send``, and reports events through
``_opened``, ``_broke``, ``_answered`` and ``_fired``, all of them on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from tidelog.core.effects import KeeperCall
from tidelog.core.keeper_port import (
    Children,
    Get,
    KeeperError,
    KeeperReply,
    Operation,
    Result,
    SessionResumed,
    SessionStarted,
    Subtree,
    WatchFired,
)
from tidelog.keeper.client import KeeperUnreachable, Notice
from tidelog.keeper.values import MalformedValue

log = logging.getLogger("tidelog.keeper")

PLACEHOLDER = Get("/")
"""Sent in place of a call that is too large, so that ``TOO_LARGE`` is answered in order and in the same
session."""


def log_too_large(operation: Operation, size: int) -> None:
    log.error("a %s of %s bytes is too large for the keeper", type(operation).__name__, size)


class KeeperConnectionBase(ABC):
    def __init__(self) -> None:
        self._notify: Callable[[Notice], None] = lambda _: None
        self._ready = asyncio.Event()
        self._requests: dict[int, asyncio.Future[Result]] = {}
        """Awaited requests, with negative numbers: positive numbers are the caller's own."""
        self._requested = 0
        self._watches: dict[tuple[str, bool], None] = {}
        """Pending watches, by path and whether they are about children, in the order they were set."""

    @property
    def connected(self) -> bool:
        return self._ready.is_set()

    def start(self, notify: Callable[[Notice], None]) -> None:
        self._notify = notify
        self._begin()

    def call(self, call: KeeperCall) -> None:
        if self.connected:
            self._send(call.call, call.operation)

    async def request(self, operation: Operation, timeout_s: float = 10.0) -> Result:
        try:
            async with asyncio.timeout(timeout_s):
                await self._ready.wait()
                self._requested -= 1
                number = self._requested
                answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
                self._requests[number] = answer
                try:
                    self._send(number, operation)
                    return await answer
                finally:
                    self._requests.pop(number, None)
        except TimeoutError:
            raise KeeperUnreachable(f"the keeper did not answer within {timeout_s:g} s") from None

    # ------------------------------------------------------------ implemented by the adapter

    @abstractmethod
    def _begin(self) -> None:
        """Start connecting."""

    @abstractmethod
    def _send(self, number: int, operation: Operation) -> None:
        """Execute a call. The connection was open when last checked."""

    @abstractmethod
    async def close(self) -> None: ...

    # ------------------------------------------------------------ called by the adapter

    def _opened(self, session: int, *, resumed: bool) -> None:
        self._ready.set()
        pending, self._watches = self._watches, {}
        if not resumed:
            self._notify(SessionStarted(session))
            return
        self._notify(SessionResumed())
        for path, children in pending:
            self._notify(WatchFired(path, children))

    def _broke(self) -> None:
        self._ready.clear()
        for number in self._requests:
            self._fail(number, "the connection to the keeper broke")

    def _answered(
        self, number: int, operation: Operation, result: Result, unreadable: Sequence[MalformedValue] = ()
    ) -> None:
        if operation is PLACEHOLDER:
            result = Result(KeeperError.TOO_LARGE)
        elif isinstance(operation, Get) and operation.watch:
            self._watches[operation.path, False] = None
        elif isinstance(operation, (Children, Subtree)) and operation.watch and result.ok:
            self._watches[operation.path, True] = None
        if number > 0:
            for error in unreadable:
                log.error("%s", error)
            self._notify(KeeperReply(number, result))
            return
        answer = self._requests.get(number)
        if answer is not None and not answer.done():
            if unreadable:
                answer.set_exception(unreadable[0])
            else:
                answer.set_result(result)

    def _fail(self, number: int, why: str) -> None:
        """The keeper will not answer this request."""
        answer = self._requests.get(number)
        if answer is not None and not answer.done():
            answer.set_exception(KeeperUnreachable(why))

    def _fired(self, path: str, children: bool) -> None:
        if (path, children) in self._watches:
            del self._watches[path, children]
            self._notify(WatchFired(path, children))
