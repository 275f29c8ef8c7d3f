"""A relay's listening port: open, silent, or refusing, and always the same number.

*Open*: connections are accepted. *Silent*: the kernel drops connection attempts, as a network does that
loses packets; an attempt hangs and, if the port opens before it gives up, succeeds when it is next
repeated. *Refusing*: attempts fail at once, as where no process listens.

How: a socket that is bound but never listens keeps the number. Beside it there is a listening one, or
none. To be silent it listens with the shortest queue, filled by a connection of our own: Linux ignores
attempts to connect to a full queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from enum import Enum

HOST = "127.0.0.1"
BACKLOG = 1024


class PortState(Enum):
    OPEN = "open"
    SILENT = "silent"
    REFUSING = "refusing"


class ListeningPort:
    def __init__(self, on_caller: Callable[[socket.socket], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_caller = on_caller
        self._reserved = _bound(0)
        self.port: int = self._reserved.getsockname()[1]
        self.state = PortState.REFUSING
        self._listener: socket.socket | None = None
        self._filler: socket.socket | None = None

    def set(self, state: PortState) -> None:
        if state is self.state:
            return
        self._shut()
        self.state = state
        if state is PortState.REFUSING:
            return
        self._listener = _bound(self.port)
        if state is PortState.OPEN:
            self._listener.listen(BACKLOG)
            self._loop.add_reader(self._listener, self._accept)
        else:
            self._listener.listen(0)
            self._filler = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._filler.setblocking(False)
            self._filler.connect_ex((HOST, self.port))

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(OSError):  # no more callers, or one left before it was accepted
            while self._listener is not None:
                caller, _ = self._listener.accept()
                caller.setblocking(False)
                self._on_caller(caller)

    def _shut(self) -> None:
        if self._listener is not None:
            if self.state is PortState.OPEN:
                self._loop.remove_reader(self._listener)
            self._listener.close()  # who waits in its queue is reset
            self._listener = None
        if self._filler is not None:
            self._filler.close()
            self._filler = None

    def close(self) -> None:
        self._shut()
        self.state = PortState.REFUSING
        self._reserved.close()


def _bound(port: int) -> socket.socket:
    """Two sockets may share a number with this option, as long as only one of them listens."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setblocking(False)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((HOST, port))
    return bound
