"""The connection to ZooKeeper, through kazoo: for clusters of several machines.

kazoo keeps the session alive, and reconnects, on its own thread. This file orders its events and reports them
on the event loop:

* Each connection of kazoo has its own ``Requests``, which kazoo's thread closes first when the connection
  breaks. The loop sends a call to the ``Requests`` that it knows, so that a call of one session cannot reach
  the next session before the loop knows of the change.
* kazoo drops its watches when a connection breaks, so pending watches fire on ``SessionResumed``.
* An operation of several requests delays the calls behind it, so that calls are executed in order.
* Before ``SessionStarted`` the chroot and the nodes of every cluster are created if they are missing.

The connected member answers reads and may lag behind the others: as in Kafka, a caller that must be sure
writes conditionally. ZooKeeper limits the session time-out to between 2 and 20 of its ticks.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from kazoo.client import KazooClient  # type: ignore[import-untyped]
from kazoo.exceptions import (  # type: ignore[import-untyped]
    ConnectionClosedError,
    ConnectionLoss,
    SessionExpiredError,
)
from kazoo.protocol.states import KazooState  # type: ignore[import-untyped]
from kazoo.retry import KazooRetry  # type: ignore[import-untyped]

from tidelog.core.keeper_port import (
    Children,
    Create,
    KeeperError,
    Multi,
    Operation,
    Result,
    SetValue,
    Subtree,
)
from tidelog.core.types import Millis
from tidelog.keeper.client import PLACEHOLDER, KeeperConnection, log, log_too_large
from tidelog.keeper.values import decode_result, encode_operation, standard_nodes
from tidelog.keeper.zookeeper.requests import InlineHandler, Requests

CLOSE_WITHIN_S = 5.0
PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 2.0
VALUE_BYTES_MAX = 1_000_000
"""ZooKeeper closes the connection at a request of more than 1 MiB, so repeating it does not help."""

_kazoo_log = logging.getLogger("tidelog.keeper.kazoo")
_kazoo_log.addHandler(logging.NullHandler())
_kazoo_log.propagate = False  # it logs every attempt to connect; silent unless a handler is added


class ZooKeeperConnection(KeeperConnection):
    def __init__(self, hosts: str, chroot: str, session_timeout_ms: Millis) -> None:
        """``hosts`` as ``host:port,host:port``; ``chroot`` is empty or a path."""
        super().__init__()
        self._hosts = hosts
        self._chroot = chroot
        self._timeout_s = session_timeout_ms / 1000
        handler = InlineHandler()
        pauses = KazooRetry(
            max_tries=-1,
            delay=PAUSE_FIRST_S,
            max_delay=min(PAUSE_MAX_S, self._timeout_s / 6),
            sleep_func=handler.sleep_func,
        )
        self._client = handler.client = KazooClient(
            hosts, self._timeout_s, handler=handler, connection_retry=pauses, logger=_kazoo_log
        )
        self._newest: Requests | None = None
        """The current one, set by kazoo's thread."""
        self._known: Requests | None = None
        """The one that the event loop knows, a little later."""
        self._session = 0
        """The last session that was announced."""
        self._waiting: deque[tuple[int, Operation]] = deque()
        """Calls that wait for an operation of several requests."""
        self._listing = False

    # ------------------------------------------------------------ connections

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.call_later(self._timeout_s, self._warn_if_unreachable)
        self._client.add_listener(self._changed)
        self._client.start_async()

    def _warn_if_unreachable(self) -> None:
        if self._known is None and not self._session:
            log.warning("ZooKeeper at %s cannot be reached yet; still trying", self._hosts)

    def _changed(self, state: str) -> None:
        """Called on kazoo's thread."""
        if self._newest is not None:
            self._newest.broke()
        connected = state == KazooState.CONNECTED
        requests = Requests(self._client, self._loop, self._chroot, self._fired) if connected else None
        self._newest = requests
        with suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._adopt, requests)

    def _adopt(self, requests: Requests | None) -> None:
        if self._known is not None:
            self._known.end()
        self._known = requests
        self._waiting.clear()
        self._listing = False
        if self.connected:
            self._broke()
        if requests is not None and requests.session == self._session:
            self._opened(self._session, resumed=True)
        elif requests is not None:
            requests.spawn(self._announce(requests))

    async def _announce(self, requests: Requests) -> None:
        """Create the standard nodes, then announce the session. If the connection breaks, the next one starts
        over."""
        try:
            await requests.make(standard_nodes(_now()))
        except _UNHEARD:
            return
        except Exception as error:
            log.error("ZooKeeper at %s refuses to create the cluster's nodes: %s", self._hosts, _said(error))
        self._session = requests.session
        self._opened(self._session, resumed=False)

    async def close(self) -> None:
        """Stop kazoo in a daemon thread, because it may hang in an attempt to connect."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()

        def stop() -> None:
            self._client.stop()
            self._client.close()
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stopped.set)

        threading.Thread(target=stop, name="kazoo-stop", daemon=True).start()
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), CLOSE_WITHIN_S)
        self._adopt(None)

    # ------------------------------------------------------------ calls

    def _send(self, number: int, operation: Operation) -> None:
        self._waiting.append((number, operation))
        self._send_waiting()

    def _send_waiting(self) -> None:
        requests = self._known
        while requests is not None and self._waiting and not self._listing:
            number, operation = self._waiting.popleft()
            encoded = encode_operation(operation, _now())
            if (size := _value_bytes(encoded)) > VALUE_BYTES_MAX:
                log_too_large(operation, size)
                operation = encoded = PLACEHOLDER
            self._listing = isinstance(operation, (Children, Subtree))
            requests.execute(encoded, self._then(number, operation))

    def _then(self, number: int, operation: Operation) -> Callable[[Result | Exception], None]:
        def then(result: Result | Exception) -> None:
            if isinstance(operation, (Children, Subtree)):
                self._listing = False
            if isinstance(result, Result):
                self._answered(number, operation, *decode_result(operation, result))
            elif not isinstance(result, _UNHEARD):
                self._refused(number, operation, result)
            self._send_waiting()

        return then

    def _refused(self, number: int, operation: Operation, error: Exception) -> None:
        """ZooKeeper refused for a reason that the port does not know, such as missing rights."""
        what = f"ZooKeeper refuses a {type(operation).__name__}: {_said(error)}"
        log.error("%s", what)
        if number > 0:
            self._answered(number, operation, Result(KeeperError.REFUSED))
        else:
            self._fail(number, what)


_UNHEARD = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)
"""The answer was lost with the connection: the caller is notified of that, and asks again."""


def _value_bytes(encoded: Operation) -> int:
    if isinstance(encoded, Multi):
        return sum(map(_value_bytes, encoded.writes))
    return len(encoded.value) if isinstance(encoded, (Create, SetValue)) else 0


def _now() -> Millis:
    return time.time_ns() // 1_000_000


def _said(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()
