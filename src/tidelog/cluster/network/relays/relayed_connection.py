"""One relayed connection: two sockets, a lane each way, and what becomes of one when the other ends.

* When one side ends, the other is closed at once, unless that direction is cut: then the news is lost like
  any other packet, and the side that is left hears of it when the link heals.
* A connection of which something was lost is reset when both directions work again. One that lost nothing
  goes on, as if nothing had happened.
* Messages that are held when either side ends are gone.
* A side that does not read holds up the other, which is then not read from.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from struct import Struct
from typing import cast

from tidelog.cluster.network.relays.lane import Lane, Tap
from tidelog.wire.errors import ProtocolError

_LINGER = Struct("ii")


class RelayedConnection:
    """``near`` is the side of the node that opened it, ``far`` that of the node it leads to."""

    def __init__(self, near: socket.socket, far: socket.socket, out: Lane, back: Lane) -> None:
        self.out = out
        self.back = back
        self.on_end: Callable[[RelayedConnection], None] = lambda connection: None
        self.on_far_end: Callable[[], None] = lambda: None
        """The far side ended by itself, and the near one does not know yet."""
        self._loop = asyncio.get_running_loop()
        self._near = _Side(self, near, out)
        self._far = _Side(self, far, back)

    async def start(self, tap: Tap | None) -> None:
        """Both sockets are connected: let bytes flow."""
        self.out.attach(self._far.send, self._near.read_if_affordable)
        self.back.attach(self._near.send, self._far.read_if_affordable)
        self.out.rules_changed(tap)
        self.back.rules_changed(tap)
        await self._loop.connect_accepted_socket(lambda: self._far, self._far.socket)
        await self._loop.connect_accepted_socket(lambda: self._near, self._near.socket)

    def rules_changed(self, tap: Tap | None, *, linked: bool) -> None:
        if linked and (self.out.lost or self.back.lost):
            self.reset()
            return
        self.out.rules_changed(tap)
        self.back.rules_changed(tap)
        self._near.read_if_affordable()
        self._far.read_if_affordable()

    def reset(self) -> None:
        """Both sides learn that it is over, rudely."""
        self.out.lose()
        self.back.lose()
        self._near.reset()
        self._far.reset()

    # ------------------------------------------------------------ what a side reports

    def other(self, side: _Side) -> _Side:
        return self._far if side is self._near else self._near

    def ended(self, side: _Side, error: Exception | None) -> None:
        other = self.other(side)
        other.lane.clear()
        if other.ended:
            side.lane.clear()
            self.on_end(self)
            return
        if side.lane.hears_nothing():
            side.lane.lose()
            return
        if side is self._far:
            self.on_far_end()
        side.lane.end(other.close if error is None else other.reset)


class _Side(asyncio.BufferedProtocol):
    """One socket: reads into its lane, and is written to by the other's."""

    def __init__(self, connection: RelayedConnection, sock: socket.socket, lane: Lane) -> None:
        self._connection = connection
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._writable = True
        self._fate: Callable[[], None] | None = None
        """What was to become of it before it was ready."""
        self.socket = sock
        self.lane = lane
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._fate is not None:
            # Not at once: uvloop would not say that a connection is lost which it is still making.
            asyncio.get_running_loop().call_soon(self._fate)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.ended = True
        self._connection.ended(self, error)

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self.lane.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self.lane.received(nbytes)
        except ProtocolError:
            self._connection.reset()
            return
        if self.lane.is_full:
            self.read_if_affordable()

    def pause_writing(self) -> None:
        self._writable = False
        self._connection.other(self).read_if_affordable()

    def resume_writing(self) -> None:
        self._writable = True
        self._connection.other(self).read_if_affordable()

    def send(self, data: bytes | bytearray) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def read_if_affordable(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        affordable = not self.lane.is_full and self._connection.other(self)._writable
        if affordable and self._paused:
            self._paused = False
            self._transport.resume_reading()
        elif not affordable and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def close(self) -> None:
        if self._transport is None:
            self._fate = self.close
        else:
            self._transport.close()

    def reset(self) -> None:
        if self._transport is None:
            self._fate = self.reset
        elif not self._transport.is_closing():
            reset_on_close(self.socket)
            self._transport.abort()


def reset_on_close(sock: socket.socket) -> None:
    """Let the other end see a reset and not an orderly end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER.pack(1, 0))
