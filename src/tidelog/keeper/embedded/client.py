"""The client of an embedded keeper: a session that outlives its connections (``protocol``).

The client sends a ping every third of the time-out. It closes a connection that was silent for two thirds of
the time-out, so that a third is left to reconnect within the session. While the event loop is too busy to
send, a thread does (``heartbeat``).
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import cast

from tidelog.core.keeper_port import Operation
from tidelog.core.types import Millis
from tidelog.keeper.client import PLACEHOLDER, KeeperConnection, log, log_too_large
from tidelog.keeper.embedded.heartbeat import Heartbeat
from tidelog.keeper.embedded.protocol import (
    ANSWER_BYTES_MAX,
    PROTOCOL,
    REQUEST_BYTES_MAX,
    JsonFrameReader,
    KeeperProtocolError,
    Message,
    field,
    frame,
    operation_to_json,
    result_from_json,
)
from tidelog.keeper.values import decode_result, encode_operation

PAUSE_FIRST_S = 0.02
PAUSE_MAX_S = 1.0
CLOSE_WITHIN_S = 2.0
LOOK_AGAIN_S = 0.05
PING: Message = {"ping": 1}


class RemoteConnection(KeeperConnection):
    def __init__(self, host: str, port: int, session_timeout_ms: Millis) -> None:
        super().__init__()
        self._host = host
        self._port = port
        self.timeout_ms = session_timeout_ms
        self.session = 0
        """The last session, and the secret that proves its ownership."""
        self.secret = ""
        self._link: _Link | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._complaint = ""

    def _begin(self) -> None:
        self._connecting = asyncio.create_task(self._connect_for_ever())

    async def _connect_for_ever(self) -> None:
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                link = await self._connect()
            except (OSError, UnicodeError) as error:  # a time-out, or an invalid host name
                self.complain(f"it cannot be reached: {str(error) or 'time-out'}")
            else:
                await link.lost
                if link.has_session:
                    pause_s = PAUSE_FIRST_S
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, PAUSE_MAX_S, self.timeout_ms / 6000)

    async def _connect(self) -> _Link:
        loop = asyncio.get_running_loop()
        connecting = loop.create_task(loop.create_connection(lambda: _Link(self), self._host, self._port))
        connecting.add_done_callback(
            lambda task: task.cancelled() or task.exception()
        )  # avoids a warning about an unread exception
        try:
            # A late event loop sees the time-out before it polls the sockets, so it polls once more.
            for seconds in (self.timeout_ms / 3000, LOOK_AGAIN_S):
                done, _ = await asyncio.wait([connecting], timeout=seconds)
                if done:
                    return connecting.result()[1]
        finally:
            connecting.cancel()
        raise TimeoutError

    def _send(self, number: int, operation: Operation) -> None:
        if self._link is not None:
            self._link.call(number, operation)

    async def close(self) -> None:
        link = self._link
        if link is not None:
            link.send({"close": 1})
            await asyncio.wait([link.lost], timeout=CLOSE_WITHIN_S)
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self._link is not None:
            self._link.abort()

    # ------------------------------------------------------------ called by the link

    def welcomed(self, link: _Link, session: int, secret: str, *, resumed: bool) -> None:
        self._link = link
        self._complaint = ""
        self.session, self.secret = session, secret
        self._opened(session, resumed=resumed)

    def received(self, number: int, operation: Operation, message: Message) -> None:
        result = result_from_json(operation, message.get("result"))
        self._answered(number, operation, *decode_result(operation, result))

    def watch_fired(self, path: str, children: bool) -> None:
        self._fired(path, children)

    def complain(self, what: str) -> None:
        """Log a problem once, however many attempts to connect fail in the same way."""
        if what != self._complaint:
            self._complaint = what
            log.warning("keeper %s:%d: %s", self._host, self._port, what)

    def broke(self, link: _Link) -> None:
        if self._link is link:
            self._link = None
            self._broke()


class _Link(asyncio.Protocol):
    """One TCP connection, from the hello until it breaks."""

    def __init__(self, owner: RemoteConnection) -> None:
        self._owner = owner
        self._reader = JsonFrameReader(ANSWER_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, Operation] = {}
        self._timeout_s = owner.timeout_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._beat: asyncio.TimerHandle | None = None
        self._heartbeat: Heartbeat | None = None
        self.has_session = False
        """The keeper has opened a session on this connection."""
        self.lost: asyncio.Future[None] = self._loop.create_future()

    # ------------------------------------------------------------ called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # uvloop's transport does not inherit from asyncio's
        owner = self._owner
        self.send(
            {
                "hello": PROTOCOL,
                "timeout_ms": owner.timeout_ms,
                "session": owner.session,
                "secret": owner.secret,
            }
        )
        self._beat_in(self._timeout_s / 3)

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        try:
            for message in self._reader.feed(data):
                self._received(message)
        except KeeperProtocolError as error:
            self._owner.complain(f"closed the connection to it: it sent {error}")
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._beat is not None:
            self._beat.cancel()
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self._transport = None
        self._owner.broke(self)
        if not self.lost.done():
            self.lost.set_result(None)

    # ------------------------------------------------------------ messages

    def _received(self, message: Message) -> None:
        if "reply" in message:
            number = field(message, "reply", int)
            operation = self._calls.pop(number, None)
            if operation is None:
                raise KeeperProtocolError(f"an answer to call {number}, which is not pending")
            self._owner.received(number, operation, message)
        elif "fired" in message:
            self._owner.watch_fired(field(message, "fired", str), field(message, "children", bool))
        elif "session" in message:
            self._timeout_s = field(message, "timeout_ms", int) / 1000
            self.has_session = True
            self._start_heartbeat()
            self._owner.welcomed(
                self,
                field(message, "session", int),
                field(message, "secret", str),
                resumed=field(message, "resumed", bool),
            )
        elif "refused" in message:
            self._owner.complain(str(message["refused"])[:200])
        elif "pong" not in message and "closed" not in message:
            raise KeeperProtocolError("an unknown message")

    def call(self, number: int, operation: Operation) -> None:
        encoded = encode_operation(operation, time.time_ns() // 1_000_000)
        data = frame({"call": number, "operation": operation_to_json(encoded)})
        if len(data) > REQUEST_BYTES_MAX:
            log_too_large(operation, len(data))
            operation = PLACEHOLDER
            data = frame({"call": number, "operation": operation_to_json(PLACEHOLDER)})
        if self._transport is not None:
            self._calls[number] = operation
            self._transport.write(data)

    def send(self, message: Message) -> None:
        if self._transport is not None:
            self._transport.write(frame(message))

    def abort(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()  # its descriptor would keep the connection open
        if self._transport is not None:
            self._transport.abort()

    def _start_heartbeat(self) -> None:
        """Start the heartbeat thread for the new session."""
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        if sock is not None and self._heartbeat is None:
            self._heartbeat = Heartbeat(sock.fileno(), frame(PING), self._timeout_s / 3)

    def _beat_in(self, seconds: float) -> None:
        planned = self._loop.time() + seconds
        self._beat = self._loop.call_at(planned, self._keep_alive, planned)

    def _keep_alive(self, planned: float) -> None:
        now = self._loop.time()
        late_s = now - planned
        if (
            now - self._heard - late_s > self._timeout_s * 2 / 3
        ):  # time in which this process was stopped does not count
            self.abort()
            return
        if self.has_session:
            self.send(PING)
        if self._heartbeat is not None:
            self._heartbeat.loop_spoke()
        self._beat_in(self._timeout_s / 3)
