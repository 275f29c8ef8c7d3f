"""The keeper client: its interface, and ``connect``, which takes a URL.

Every adapter keeps these rules (``tests/keeper/test_contract.py`` tests all adapters):

* Everything happens on the event loop that ran ``start``. Notices arrive there one by one, in the order in
  which the keeper sent them. Nothing blocks.
* After a connection breaks the client reconnects, without limit, with back-off. Within the session time-out
  the notice is ``SessionResumed``; after it, or on the first connection, ``SessionStarted``.
* While there is no connection calls are dropped, and a broken connection loses its answers. The caller
  repeats unanswered calls at ``SessionResumed``, and forgets all calls at ``SessionStarted``. No answer ever
  crosses from one session into the next.
* A watch fires once. A watched node may change while the connection is broken, so every pending watch fires
  right after ``SessionResumed``: a watch may fire without a change, but never misses one. Watches end with
  their session.
* A call larger than the keeper accepts is answered ``TOO_LARGE`` and changes nothing.
* A call treats a node with unreadable bytes as missing; a log message names the node.
"""

from __future__ import annotations

import asyncio
import logging
import re
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
from tidelog.core.types import Millis
from tidelog.keeper.values import MalformedValue

log = logging.getLogger("tidelog.keeper")

Notice = KeeperReply | WatchFired | SessionStarted | SessionResumed

SESSION_TIMEOUT_MS = 6000
"""The default of Kafka 2.4 and earlier. Later versions use 18 s, because of cloud networks."""

_ADDRESS = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s,:/\[\]]+):\d{1,5}"
_EMBEDDED = re.compile(rf"embedded://({_ADDRESS})/?")
_ZOOKEEPER = re.compile(rf"zookeeper://({_ADDRESS}(?:,{_ADDRESS})*)((?:/[^/\s]+)*)/?")


class KeeperUnreachable(ConnectionError):
    """The keeper did not answer. A write may or may not have been executed."""


PLACEHOLDER = Get("/")
"""Sent in place of a call that is too large, so that ``TOO_LARGE`` is answered in order and in the same
session."""


def log_too_large(operation: Operation, size: int) -> None:
    log.error("a %s of %s bytes is too large for the keeper", type(operation).__name__, size)


class KeeperConnection(ABC):
    """What adapters share: pending requests and pending watches. An adapter executes operations in `_send`,
    and reports events through `_opened`, `_broke`, `_answered` and `_fired`, all on the event loop."""

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
        """Whether there is a session with an open connection."""
        return self._ready.is_set()

    def start(self, notify: Callable[[Notice], None]) -> None:
        """Start to connect; call it on the event loop. ``notify`` is called there with every notice."""
        self._notify = notify
        self._begin()

    def call(self, call: KeeperCall) -> None:
        """Send an operation; the answer is a ``KeeperReply``. The keeper executes calls in order."""
        if self.connected:
            self._send(call.call, call.operation)

    async def request(self, operation: Operation, timeout_s: float = 10.0) -> Result:
        """Send an operation and wait for the result: for tools.

        Waits for a connection. Raises ``KeeperUnreachable`` if there is none in time or if it breaks, and
        ``MalformedValue`` for a node with unreadable bytes.
        """
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
    async def close(self) -> None:
        """End the session and its ephemeral nodes now, if the keeper can be reached."""

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


def connect(url: str, session_timeout_ms: Millis = SESSION_TIMEOUT_MS) -> KeeperConnection:
    """``embedded://host:port`` or ``zookeeper://host:port,host:port/chroot``; not yet started."""
    if session_timeout_ms <= 0:
        raise ValueError(f"the session timeout must be positive, not {session_timeout_ms} ms")
    if found := _EMBEDDED.fullmatch(url):
        from tidelog.keeper.embedded.client import RemoteConnection

        host, _, port = found[1].rpartition(":")
        _check_port(url, port)
        return RemoteConnection(host.strip("[]"), int(port), session_timeout_ms)
    if found := _ZOOKEEPER.fullmatch(url):
        from tidelog.keeper.zookeeper.connection import ZooKeeperConnection

        for address in found[1].split(","):
            _check_port(url, address.rpartition(":")[2])
        return ZooKeeperConnection(found[1], found[2], session_timeout_ms)
    raise ValueError(
        f"{url!r} names no keeper; write embedded://host:port or zookeeper://host:port,host:port/chroot"
    )


def _check_port(url: str, port: str) -> None:
    if not 1 <= int(port) <= 65535:
        raise ValueError(f"{url!r} has port {port}, and ports are 1 to 65535")
