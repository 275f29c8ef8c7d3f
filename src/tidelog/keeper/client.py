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

import re
from collections.abc import Callable
from typing import Protocol

from tidelog.core.effects import KeeperCall
from tidelog.core.keeper_port import (
    KeeperReply,
    Operation,
    Result,
    SessionResumed,
    SessionStarted,
    WatchFired,
)
from tidelog.core.types import Millis

Notice = KeeperReply | WatchFired | SessionStarted | SessionResumed

SESSION_TIMEOUT_MS = 6000
"""The default of Kafka 2.4 and earlier. Later versions use 18 s, because of cloud networks."""

_ADDRESS = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s,:/\[\]]+):\d{1,5}"
_EMBEDDED = re.compile(rf"embedded://({_ADDRESS})/?")
_ZOOKEEPER = re.compile(rf"zookeeper://({_ADDRESS}(?:,{_ADDRESS})*)((?:/[^/\s]+)*)/?")


class KeeperUnreachable(ConnectionError):
    """The keeper did not answer. A write may or may not have been executed."""


class KeeperConnection(Protocol):
    @property
    def connected(self) -> bool:
        """Whether there is a session with an open connection."""

    def start(self, notify: Callable[[Notice], None]) -> None:
        """Start to connect; call it on the event loop. ``notify`` is called there with every notice."""

    def call(self, call: KeeperCall) -> None:
        """Send an operation; the answer is a ``KeeperReply``. The keeper executes calls in order."""

    async def request(self, operation: Operation, timeout_s: float = 10.0) -> Result:
        """Send an operation and wait for the result: for tools.

        Waits for a connection. Raises ``KeeperUnreachable`` if there is none in time or if it breaks, and
        ``MalformedValue`` for a node with unreadable bytes.
        """

    async def close(self) -> None:
        """End the session and its ephemeral nodes now, if the keeper can be reached."""


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
