"""Where the nodes of a trial really listen, and whether a process listens there.

A relay's port takes connections whether or not there is a process behind it; a dead broker's port must refuse
them. So when a connection to a place breaks or cannot be made, the place is probed: if no process listens it
counts as *down* and is probed again, often, until one does. A probe is a connection that is closed at once.
Only a plain refusal counts: a stopped process (SIGSTOP) has a kernel that accepts for it, as it has without a
relay.
"""

from __future__ import annotations

import asyncio
import errno
import select
import socket
from collections.abc import Callable

from tidelog.faults.places import Node

PROBE_SECONDS = 0.02
PATIENCE_MS = 10
"""On this machine an answer is there at once, or, if the machine is very busy, soon. All relays wait for it:
a node that lost a connection must not learn of that before the port is right."""

Address = tuple[str, int]


class Addresses:
    def __init__(self, on_change: Callable[[Node], None]) -> None:
        """``on_change`` gets a node that listens elsewhere, or again, or no more."""
        self._loop = asyncio.get_running_loop()
        self._on_change = on_change
        self._addresses: dict[Node, Address] = {}
        self._down: dict[Node, asyncio.TimerHandle] = {}

    def set(self, node: Node, address: Address) -> None:
        self._addresses[node] = address
        self._forget(node)
        self._on_change(node)

    def learn(self, node: Node, address: Address) -> None:
        """What the cluster itself says, of nodes that were not placed."""
        if node not in self._addresses:
            self.set(node, address)

    def get(self, node: Node) -> Address | None:
        return self._addresses.get(node)

    def is_up(self, node: Node) -> bool:
        return node in self._addresses and node not in self._down

    def doubt(self, node: Node) -> None:
        """A connection to it broke, or could not be made."""
        if self.is_up(node) and not listens(self._addresses[node]):
            self._down[node] = self._loop.call_later(PROBE_SECONDS, self._probe, node)
            self._on_change(node)

    def _probe(self, node: Node) -> None:
        if listens(self._addresses[node]):
            del self._down[node]
            self._on_change(node)
        else:
            self._down[node] = self._loop.call_later(PROBE_SECONDS, self._probe, node)

    def _forget(self, node: Node) -> None:
        probing = self._down.pop(node, None)
        if probing is not None:
            probing.cancel()

    def close(self) -> None:
        for node in list(self._down):
            self._forget(node)


def listens(address: Address) -> bool:
    """False if a connection is refused; True also if nothing is known in time."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as caller:
        caller.setblocking(False)
        outcome = caller.connect_ex(address)
        if outcome == errno.EINPROGRESS:
            known = select.poll()  # and not select(), which fails in processes with many files
            known.register(caller, select.POLLOUT)
            if known.poll(PATIENCE_MS):
                outcome = caller.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return outcome != errno.ECONNREFUSED
