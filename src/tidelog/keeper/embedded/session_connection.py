"""One client's connection to the embedded keeper: frames in, frames out, all queues bounded.

The keeper stops reading from a peer that sends faster than it is served. It disconnects a peer that does not
read its notifications, because they may neither be dropped nor kept without limit: the client reconnects and
reads again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from tidelog.core.keeper_port import WatchFired
from tidelog.core.types import Millis
from tidelog.keeper.embedded.protocol import (
    PROTOCOL,
    REQUEST_BYTES_MAX,
    JsonFrameReader,
    KeeperProtocolError,
    Message,
    field,
    frame,
    operation_from_json,
)

if TYPE_CHECKING:
    from tidelog.keeper.embedded.server import EmbeddedKeeper

log = logging.getLogger("tidelog.keeper")

CALLS_WAITING_MAX = 1000
WATCHES_MAX = 20_000
UNREAD_NOTICE_BYTES_MAX = 4 * 1024 * 1024
HELLO_WITHIN_S = 10.0


class SessionConnection(asyncio.Protocol):
    def __init__(self, keeper: EmbeddedKeeper) -> None:
        self._keeper = keeper
        self._reader = JsonFrameReader(REQUEST_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._unread = False
        """The peer reads more slowly than the keeper writes."""
        self._unread_notice_bytes = 0
        self._greeted = False
        self._silence: asyncio.TimerHandle | None = None
        self.session = 0
        """Set by the keeper once the session is open."""
        self.calls_waiting = 0
        """Calls of this connection that wait for execution."""
        self._watched: set[tuple[str, bool]] = set()

    @property
    def closed(self) -> bool:
        return self._transport is None

    # ------------------------------------------------------------ called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # uvloop's transport does not inherit from asyncio's
        self._silence = asyncio.get_running_loop().call_later(HELLO_WITHIN_S, self._hello_timed_out)
        self._keeper.connected(self)

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._reader.feed(data):
                if self.closed:
                    return
                self._received(message)
        except KeeperProtocolError as error:
            self.drop(f"it sent {error}")
        self._throttle_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def pause_writing(self) -> None:
        self._unread = True
        self._throttle_reading()

    def resume_writing(self) -> None:
        self._unread = False
        self._unread_notice_bytes = 0
        self._throttle_reading()

    # ------------------------------------------------------------ messages

    def _received(self, message: Message) -> None:
        if not self._greeted:
            self._greet(message)
        elif not self.session:
            raise KeeperProtocolError("a message before it had a session")
        elif "call" in message:
            operation = operation_from_json(message.get("operation"))
            self._keeper.call(self, field(message, "call", int), operation)
        elif "ping" in message:
            self._keeper.heard(self)
            self.send({"pong": 1})
        elif "close" in message:
            self._keeper.close_session(self)
        else:
            raise KeeperProtocolError(f"an unknown message: {', '.join(message)[:60]!r}")

    def _greet(self, message: Message) -> None:
        if message.get("hello") != PROTOCOL:
            raise KeeperProtocolError(f"no hello of {PROTOCOL}")
        timeout_ms: Millis = field(message, "timeout_ms", int)
        session = field(message, "session", int)
        secret = field(message, "secret", str)
        self._greeted = True
        if self._silence is not None:
            self._silence.cancel()
        self._keeper.greeted(self, timeout_ms, session, secret)

    def send(self, message: Message) -> None:
        if self._transport is not None:
            self._transport.write(frame(message))

    def watch(self, path: str, *, children: bool) -> None:
        self._watched.add((path, children))
        if len(self._watched) > WATCHES_MAX:
            raise KeeperProtocolError(f"more than {WATCHES_MAX} watches")

    def notify(self, watch: WatchFired) -> None:
        """Send a notification. Unlike answers, notifications are not limited by the number of calls."""
        self._watched.discard((watch.path, watch.children))
        if self._transport is not None:
            notice = frame({"fired": watch.path, "children": watch.children})
            self._transport.write(notice)
            self._unread_notice_bytes += len(notice) if self._unread else 0
            if self._unread_notice_bytes > UNREAD_NOTICE_BYTES_MAX:
                self.drop("it does not read its notifications")

    def call_finished(self) -> None:
        self.calls_waiting -= 1
        self._throttle_reading()

    # ------------------------------------------------------------ limits and closing

    def _throttle_reading(self) -> None:
        """Stop reading while too many calls wait, and resume when they are served."""
        if self._transport is None or self._transport.is_closing():
            return
        busy = self._unread or self.calls_waiting >= CALLS_WAITING_MAX
        if busy and self._transport.is_reading():
            self._transport.pause_reading()
        elif not busy and not self._transport.is_reading():
            self._transport.resume_reading()

    def _hello_timed_out(self) -> None:
        self.drop(f"it sent nothing for {HELLO_WITHIN_S:g} s")

    def drop(self, why: str) -> None:
        if self._transport is not None:
            address = self._transport.get_extra_info("peername")
            log.warning("keeper: closed the connection from %s: %s", _shown(address), why)
            self.abort()

    def abort(self) -> None:
        """Close the connection at once and drop unsent data."""
        if self._transport is not None:
            self._transport.abort()
            self._leave()

    def finish(self) -> None:
        """Close the connection once everything is sent."""
        if self._transport is not None:
            self._transport.close()
            self._leave()

    def _leave(self) -> None:
        if self._transport is not None:
            self._transport = None
            if self._silence is not None:
                self._silence.cancel()
            self._keeper.disconnected(self)


def _shown(address: object) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "a stranger"
