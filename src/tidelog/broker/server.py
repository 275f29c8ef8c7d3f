"""The listening side: admits connections within limits, turns frames into requests, flushes answers.

An unsupported version is handled as in Kafka (ApiVersions: a version-0 body with the error; others: the
connection is closed, because the client knows the supported versions). A failed handler loses its own
request, but never stops the broker.

Until the broker has metadata (``open``) only other brokers are served, whose requests bring it. Requests of
clients wait in their connections, which are not read further. A client sees a delay, as with Kafka until the
broker has caught up (KIP-631), or asks another broker. An answer without a controller would be worse:
librdkafka's admin client would not ask again before its own time-out.

A handler that loops over a client's list is a generator, and so is the decoding of a large frame: they run in
slices (``slices.py``), and the connection's next request waits for their end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from tidelog.broker.apis import SERVED, Listener
from tidelog.broker.connection import ClientConnection, Request
from tidelog.broker.frame_memory import FrameMemory
from tidelog.broker.metrics.counters import Metrics
from tidelog.broker.slices import Slices
from tidelog.core.types import InvariantViolation
from tidelog.storage.background import StepsAndJobs
from tidelog.wire.api import (
    Api,
    RequestHeader,
    UnsupportedVersion,
    decode_request,
    decode_request_in_steps,
)
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.api_versions import ApiVersionsResponse

Handler = Callable[[Request], StepsAndJobs[None] | None]
Shortcut = Callable[[ClientConnection, bytearray, float], bool]
LARGE_BYTES = 16 * 1024
"""A smaller frame is decoded in one step: a few milliseconds in the worst case."""
_SERVED_AT_ONCE = frozenset(key for key, api in SERVED.items() if Listener.BETWEEN_BROKERS in api.listener)
REFUSAL_SAID_EVERY_SECONDS = 60.0


@dataclass(slots=True, frozen=True)
class Limits:
    frame_bytes_max: int = 100 * 1024 * 1024
    connections_max: int = 10_000
    connections_per_address_max: int = 10_000
    idle_seconds_max: float = 600.0
    requests_open_max: int = 500
    answer_bytes_held_max: int = 57_671_680
    """Per connection: answers that wait for earlier ones."""
    incoming_bytes_max: int = 256 * 1024 * 1024
    """Over all connections: incomplete requests."""


class Server:
    def __init__(
        self,
        handlers: dict[int, Handler],
        limits: Limits,
        metrics: Metrics,
        settle: Callable[[], None],
        on_violation: Callable[[str], None],
        *,
        shortcuts: dict[int, Shortcut] | None = None,
    ) -> None:
        """``settle`` executes the effects of one read event; ``on_violation`` stops the broker."""
        self.limits = limits
        self.metrics = metrics
        self.settle = settle
        self.memory = FrameMemory(limits.incoming_bytes_max, metrics)
        self.slices = Slices(metrics, settle)
        self._on_violation = on_violation
        self.clock = time.perf_counter
        self.settled_at = 0.0
        """When the last answer was ready. It is written in the same turn of the loop."""
        self.log = logging.getLogger("tidelog.server")
        self.unflushed: dict[ClientConnection, None] = {}
        self.connections: dict[ClientConnection, str] = {}
        self._per_address: dict[str, int] = {}
        self._refusal_said_at = -REFUSAL_SAID_EVERY_SECONDS
        self.handlers = handlers
        """By API."""
        self.shortcuts = shortcuts or {}
        """By API: they handle the most common requests, which are not decoded then."""
        self._shipped: dict[int, tuple[Handler, Shortcut | None]] = {}
        self.starting = True
        """The broker is starting: requests of clients wait."""
        self._listener: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ listening

    async def listen(self, host: str, port: int) -> int:
        """Bind and return the port; OSError if it is taken."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: ClientConnection(self), host, port, backlog=1024, start_serving=False
        )
        return int(self._listener.sockets[0].getsockname()[1])

    async def serve(self) -> None:
        assert self._listener is not None
        await self._listener.start_serving()
        if self.limits.idle_seconds_max != inf:
            self._close_idle()

    def open(self) -> None:
        """Serve clients from now on; waiting ones first."""
        self.starting = False
        for connection in list(self.connections):
            connection.look_again()

    def waits(self, frame: bytearray) -> bool:
        return self.starting and int.from_bytes(frame[:2]) not in _SERVED_AT_ONCE

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        self.slices.stop()
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.close()

    # ------------------------------------------------------------ connections

    def admit(self, connection: ClientConnection, address: str) -> bool:
        limits = self.limits
        here = self._per_address.get(address, 0)
        if len(self.connections) >= limits.connections_max or here >= limits.connections_per_address_max:
            self._refused(connection, here)
            return False
        self.connections[connection] = address
        self._per_address[address] = here + 1
        self.metrics.connections = len(self.connections)
        return True

    def _refused(self, connection: ClientConnection, here: int) -> None:
        """Log at most one line per minute, because refused clients retry at once."""
        self.metrics.connections_refused += 1
        now, limits = self.clock(), self.limits
        if now < self._refusal_said_at + REFUSAL_SAID_EVERY_SECONDS:
            return
        self._refusal_said_at = now
        self.log.warning(
            "refused a connection from %s: %s open, %s of them from there (max.connections=%s, "
            "max.connections.per.ip=%s)",
            connection.peer,
            len(self.connections),
            here,
            limits.connections_max,
            limits.connections_per_address_max,
        )

    def left(self, connection: ClientConnection) -> None:
        self.unflushed.pop(connection, None)
        address = self.connections.pop(connection, None)
        if address is not None:
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]
        self.metrics.connections = len(self.connections)

    def flush(self) -> None:
        """Write the answers since the last call."""
        while self.unflushed:
            connection, _ = self.unflushed.popitem()
            connection.flush()

    def _close_idle(self) -> None:
        seconds = self.limits.idle_seconds_max
        oldest = self.clock() - seconds
        for connection in list(self.connections):
            since = connection.idle_since()
            if since is not None and since < oldest:
                connection.close()
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(max(seconds / 10, 0.05), self._close_idle)

    # ------------------------------------------------------------ requests

    def replace(self, api: int, handler: Handler) -> None:
        """Handle requests in another way, until ``restore``: a test wants that (``interference.py``)."""
        self._shipped[api] = self.handlers[api], self.shortcuts.pop(api, None)
        self.handlers[api] = handler

    def restore(self, api: int) -> None:
        self.handlers[api], shortcut = self._shipped.pop(api)
        if shortcut is not None:
            self.shortcuts[api] = shortcut

    def dispatch(self, connection: ClientConnection, frame: bytearray, received_at: float) -> None:
        """Handle a request, or start to."""
        try:
            if len(frame) > 1:
                shortcut = self.shortcuts.get(frame[1])
                if shortcut is not None and shortcut(connection, frame, received_at):
                    return
            if len(frame) > LARGE_BYTES:
                self.slices.begin(connection, self._dispatch_large(connection, frame, received_at))
            else:
                header, body = decode_request(frame)
                request = self._request(connection, header, body, received_at)
                steps = self.handlers[header.api_key](request)
                if steps is not None:
                    self.slices.begin(connection, steps)
                request.body = None  # a produce that waits for followers must not keep its batches in memory
        except Exception as error:
            self.failed(connection, error)

    def _dispatch_large(
        self, connection: ClientConnection, frame: bytearray, received_at: float
    ) -> StepsAndJobs[None]:
        connection.working_bytes = len(frame)
        try:
            header, body = yield from decode_request_in_steps(frame)
            request = self._request(connection, header, body, received_at)
            steps = self.handlers[header.api_key](request)
            if steps is not None:
                yield from steps
            request.body = None
        finally:
            connection.working_bytes = 0

    def _request(
        self, connection: ClientConnection, header: RequestHeader, body: Any, received_at: float
    ) -> Request:
        """Create the request and add it to the connection's queue."""
        if header.api_key not in self.handlers:
            raise ProtocolError(f"API {header.api_key} is not served here")
        request = Request(connection, header, body, received_at)
        connection.enqueue(request)
        return request

    def failed(self, connection: ClientConnection, error: Exception) -> None:
        """A request of this connection ended with an exception."""
        if isinstance(error, UnsupportedVersion) and error.header.api_key == Api.API_VERSIONS:
            self._offer_versions(connection, error.header)
        elif isinstance(error, ProtocolError):
            connection.close_on_protocol_error(error)
        elif isinstance(error, InvariantViolation):
            # An invariant of replication is broken: continuing could lose acknowledged records.
            self._on_violation(f"replication reached a state that its rules exclude: {error}")
        else:
            # A bug in one handler must not stop the broker or other connections. The connection is closed, so
            # that the client does not wait forever.
            self.metrics.unexpected_errors += 1
            self.log.error("failed on %s from %s", connection.latest, connection.peer, exc_info=error)
            connection.abort()

    def _offer_versions(self, connection: ClientConnection, header: RequestHeader) -> None:
        asked = RequestHeader(header.api_key, 0, header.correlation_id, header.client_id)
        request = self._request(connection, asked, None, self.clock())
        error = ErrorCode.UNSUPPORTED_VERSION
        known = SERVED[Api.API_VERSIONS].listed()
        request.respond(ApiVersionsResponse(error_code=error, api_keys=[known]), failed=True)
