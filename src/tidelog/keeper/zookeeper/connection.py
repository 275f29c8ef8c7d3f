"""The connection to a real ZooKeeper, through kazoo: for clusters of several machines.

kazoo keeps the session alive, and reconnects, on a thread of its own. This file makes one story out of what
it says there, and tells it on the event loop:

* Each connection that kazoo makes has its own ``Requests``, which kazoo's thread shuts before anything else
  happens. A call goes to the one the loop knows of, so that a call made in one session cannot slip into the
  next one while the loop has not yet heard of the change.
* kazoo drops its watches when a connection breaks, so ours fire on ``SessionResumed`` like everybody's.
* An operation of several requests holds back the calls behind it, so that calls are executed in order.
* Before ``SessionStarted`` is told, the chroot and the nodes of every cluster are made where missing.

Reads are answered by the member one is connected to, which may lag behind the others: as in Kafka, whoever
must be sure writes conditionally. ZooKeeper clips the session time-out to between 2 and 20 of its ticks.
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

from tidelog.core.keeper_port import Children, Create, Multi, Operation, Result, SetValue, Subtree
from tidelog.core.types import Millis
from tidelog.keeper.connection import STAND_IN, KeeperConnectionBase, log, say_too_large
from tidelog.keeper.values import decode_result, encode_operation, standard_nodes
from tidelog.keeper.zookeeper.requests import InlineHandler, Requests

CLOSE_WITHIN_S = 5.0
PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 2.0
VALUE_BYTES_MAX = 1_000_000
"""ZooKeeper hangs up on a request of more than 1 MiB, however often it is repeated."""

_kazoo_log = logging.getLogger("tidelog.keeper.kazoo")
_kazoo_log.addHandler(logging.NullHandler())
_kazoo_log.propagate = False  # it tells of every attempt to connect; whoever wants that adds a handler


class ZooKeeperConnection(KeeperConnectionBase):
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
        """As kazoo's thread sees it."""
        self._known: Requests | None = None
        """As the loop sees it: a little later."""
        self._session = 0
        """The one that was announced last."""
        self._waiting: deque[tuple[int, Operation]] = deque()
        """Calls behind an operation of several requests."""
        self._listing = False

    # ------------------------------------------------------------ connections

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.call_later(self._timeout_s, self._say_if_unreachable)
        self._client.add_listener(self._changed)
        self._client.start_async()

    def _say_if_unreachable(self) -> None:
        if self._known is None and not self._session:
            log.warning("ZooKeeper at %s cannot be reached yet; still trying", self._hosts)

    def _changed(self, state: str) -> None:
        """On kazoo's thread."""
        if self._newest is not None:
            self._newest.broke()
        connected = state == KazooState.CONNECTED
        requests = Requests(self._client, self._loop, self._chroot, self._fired) if connected else None
        self._newest = requests
        with suppress(RuntimeError):  # the loop was closed: nobody is left to hear it
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
        """If the connection breaks on the way, the next one begins again."""
        try:
            await requests.make(standard_nodes(_now()))
        except _UNHEARD:
            return
        except Exception as error:
            log.error("ZooKeeper at %s does not let us make our nodes: %s", self._hosts, _said(error))
        self._session = requests.session
        self._opened(self._session, resumed=False)

    async def close(self) -> None:
        """kazoo may be stuck in an attempt to connect: it gets a thread that nobody has to wait for."""
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
                say_too_large(operation, size)
                operation = encoded = STAND_IN
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
        """For a reason that the port does not know, such as missing rights: nothing one could go on with."""
        what = f"ZooKeeper does not take a {type(operation).__name__}: {_said(error)}"
        log.error("%s", what)
        self._fail(number, what)


_UNHEARD = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)
"""The answer got lost with the connection: whoever asked hears of that, and asks again."""


def _value_bytes(encoded: Operation) -> int:
    if isinstance(encoded, Multi):
        return sum(map(_value_bytes, encoded.writes))
    return len(encoded.value) if isinstance(encoded, (Create, SetValue)) else 0


def _now() -> Millis:
    return time.time_ns() // 1_000_000


def _said(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()
