"""How a process speaks to the keeper, whichever it is: the interface, and ``connect`` that takes a URL.

The rules that every adapter keeps (``tests/keeper/test_contract.py`` holds them all to these):

* Everything happens on the event loop that ran ``start``. Notices arrive there one by one, in the order in
  which the keeper spoke. Nothing blocks.
* A connection that breaks is made again, for ever, with back-off. Coming back within the session time-out it
  tells ``SessionResumed``; too late, or for the first time, ``SessionStarted``.
* While there is no connection a call is dropped. So is the answer that a broken connection took with it: the
  caller repeats at ``SessionResumed`` what is still unanswered, and forgets everything at ``SessionStarted``.
  No answer ever crosses from one session into the next.
* A watch is heard once. Nobody can know what happened to a watched node while the connection was broken, so
  every watch that is still pending fires right after ``SessionResumed``: a watch may fire without a change,
  and never misses one. Watches die with their session.
* A call with more bytes than the keeper takes is answered ``TOO_LARGE`` and changes nothing.
* A node whose bytes cannot be understood is, to a call, not there; a line in the log says which.
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
"""What Kafka 2.4 and earlier used. Later ones take 18 s, for the sake of cloud networks."""

_ADDRESS = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s,:/\[\]]+):\d{1,5}"
_EMBEDDED = re.compile(rf"embedded://({_ADDRESS})/?")
_ZOOKEEPER = re.compile(rf"zookeeper://({_ADDRESS}(?:,{_ADDRESS})*)((?:/[^/\s]+)*)/?")


class KeeperUnreachable(ConnectionError):
    """No answer came. A write may or may not have been executed."""


class KeeperConnection(Protocol):
    @property
    def connected(self) -> bool:
        """There is a session, and a connection to speak in it."""

    def start(self, notify: Callable[[Notice], None]) -> None:
        """Begin to connect, from within the event loop; ``notify`` is called on it with every notice."""

    def call(self, call: KeeperCall) -> None:
        """Ask for an operation, to be answered by ``KeeperReply``. Calls are executed in their order."""

    async def request(self, operation: Operation, timeout_s: float = 10.0) -> Result:
        """The answer itself, for tools that ask one thing after the other.

        Waits for a connection. Raises ``KeeperUnreachable`` if there is none in time or if it breaks, and
        ``MalformedValue`` where a call would not find the node.
        """

    async def close(self) -> None:
        """End the session now, ephemeral nodes and all, as far as the keeper can be reached."""


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
