"""One client's connection: frames in, answers out in the order of the requests.

Rules of this file:

* A request is dispatched as soon as its frame is complete, even while earlier ones still wait for followers
  or for data: clients pipeline. Its answer goes out when all earlier answers have.
* Every frame of a read event is handled before anything is written; then one vectored write carries all
  answers that are ready. If that takes longer than a slice, the rest waits for the next turn of the loop.
* While a request is handled in slices (``slices.py``), or a long answer is encoded in slices, the next
  request waits.
* The broker stops reading from a client that does not read its answers, or that has too many open requests;
  requests that were read already wait. An answer to a fetch may be a million times larger than the request,
  so effects are executed after each fetch, before the next one: this bounds the memory that one client can
  use.
* ``FrameMemory`` counts the memory of incomplete and waiting requests. If it is used up, the broker stops
  reading too.
* Until the broker has started (``Server.open``), all requests of a client wait.
* Bytes that are not a Kafka request close this connection, with one log message, and affect no other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from tidelog.broker.slices import SLICE_SECONDS
from tidelog.storage.background import Steps, StepsAndJobs
from tidelog.wire.api import Api, Buffer, RequestHeader, encode_response, encode_response_in_steps
from tidelog.wire.errors import ProtocolError
from tidelog.wire.frames import FrameReader

if TYPE_CHECKING:
    from tidelog.broker.server import Server

_FETCH = int(Api.FETCH)
_PIECE_BYTES = 1024
"""Maximum bytes of one read while memory is short."""


class Request:
    """A request in progress, and the position of its answer in the queue."""

    __slots__ = (
        "answer",
        "answer_bytes",
        "body",
        "connection",
        "header",
        "on_abandoned",
        "on_superseded",
        "received_at",
    )

    def __init__(
        self, connection: ClientConnection, header: RequestHeader, body: Any, received_at: float
    ) -> None:
        self.connection = connection
        self.header = header
        self.body = body
        self.received_at = received_at
        self.answer: list[Any] | None = None
        self.answer_bytes = 0
        self.on_superseded: Any = None
        """Called when the client sends its next request while this one waits (a follower's fetch)."""
        self.on_abandoned: Any = None
        """Called when the client disconnects while this request waits, which may take weeks."""

    @property
    def name(self) -> str:
        """The API and its version, for log messages."""
        try:
            return f"{Api(self.header.api_key).name} v{self.header.api_version}"
        except ValueError:
            return f"API {self.header.api_key} v{self.header.api_version}"

    @property
    def sender(self) -> str:
        """The client's name for itself, or its address."""
        return self.header.client_id or self.connection.peer

    def respond(self, body: Any, *, failed: bool = False) -> None:
        self.go_on(self._encode(body, failed))

    def respond_at_once(self, body: Any, *, failed: bool = False) -> None:
        """``respond`` for an answer that is known to be short: saves a microsecond."""
        try:
            answer = encode_response(self.header, body)
        except Exception as error:
            # The handler may have returned long ago, so no caller knows whose answer this is.
            self.connection.failed(error)
            return
        self._settle(answer, failed)

    def respond_encoded(self, answer: list[Buffer], *, failed: bool = False) -> None:
        """``respond`` with a whole frame."""
        self._settle(answer, failed)

    def respond_with(self, steps: StepsAndJobs[Any], *, failed: bool = False) -> None:
        """``respond`` for an answer that is made in steps, because it may have very many parts."""
        self.go_on(self._make_and_encode(steps, failed))

    def go_on(self, steps: StepsAndJobs[None]) -> None:
        """Continue the request in steps, after a wait."""
        self.connection.server.slices.begin(self.connection, steps)

    def _encode(self, body: Any, failed: bool) -> Steps[None]:
        self._settle((yield from encode_response_in_steps(self.header, body)), failed)

    def _make_and_encode(self, steps: StepsAndJobs[Any], failed: bool) -> StepsAndJobs[None]:
        body = yield from steps
        self._settle((yield from encode_response_in_steps(self.header, body)), failed)

    def respond_nothing(self) -> None:
        """Finish without an answer (acks=0)."""
        self._settle([], failed=False)

    def _settle(self, answer: list[Any], failed: bool) -> None:
        self.answer = answer
        self.answer_bytes = size = len(answer[0]) if len(answer) == 1 else sum(map(len, answer))
        # They refer back to this request, and reference cycles keep whole fetches in memory.
        self.on_superseded = self.on_abandoned = None
        connection = self.connection
        connection.held_bytes += size
        server = connection.server
        server.unflushed[connection] = None
        server.settled_at = now = server.clock()
        server.metrics.request_finished(self.header.api_key, (now - self.received_at) * 1e6, failed)


class ClientConnection(asyncio.BufferedProtocol):
    __slots__ = (
        "_frames",
        "_going_on",
        "_incoming_bytes",
        "_open",
        "_paused",
        "_received",
        "_starved",
        "_transport",
        "_work",
        "_writable",
        "held_bytes",
        "last_active",
        "peer",
        "server",
        "working_bytes",
    )

    def __init__(self, server: Server) -> None:
        self.server = server
        self.peer = "?"
        self.last_active = server.clock()
        self._transport: asyncio.Transport | None = None
        self._frames = FrameReader(server.limits.frame_bytes_max)
        self._open: deque[Request] = deque()
        self._received: list[bytearray] = []
        """Received frames that wait: beyond a limit, out of time, or before the broker has started."""
        self._work = 0
        """Number of requests and answers that are handled in slices."""
        self.working_bytes = 0
        """Size of the large frame that is being decoded."""
        self._incoming_bytes = 0
        """The memory that ``FrameMemory`` counts for this connection."""
        self._starved = False
        """``FrameMemory`` has no room for the rest of a request."""
        self._going_on: asyncio.Handle | None = None
        self._writable = True
        self._paused = False
        self.held_bytes = 0
        """Size of answers that wait for earlier ones."""

    # ------------------------------------------------------------ the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        self.peer = f"{address[0]}:{address[1]}" if address else "?"
        if not self.server.admit(self, address[0] if address else "?"):
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        abandoned = [request.on_abandoned for request in self._open if request.on_abandoned is not None]
        for request in self._open:
            request.on_superseded = request.on_abandoned = None  # as in ``Request._settle``
        self._open.clear()
        self._received.clear()
        self._frames.drop()
        for give_up in abandoned:
            give_up()
        if abandoned:
            self.server.settle()
        self.server.memory.changed(self, self._incoming_bytes, 0)
        self._incoming_bytes = 0
        self.server.left(self)

    def get_buffer(self, _sizehint: int) -> memoryview:
        buffer = self._frames.buffer()
        if self.server.memory.exhausted and not self._frames.held:
            return buffer[:_PIECE_BYTES]
        return buffer

    def buffer_updated(self, nbytes: int) -> None:
        server = self.server
        server.metrics.bytes_in += nbytes
        self.last_active = began = server.clock()
        try:
            frames = self._frames.received(nbytes)
        except ProtocolError as error:
            self.close_on_protocol_error(error)
        else:
            if len(frames) == 1 and not self._received and not server.starting:
                self._dispatch(frames[0], began)
            elif frames or self._received:
                self._handle(frames, began)
        server.settle()
        server.metrics.loop_held(server.clock() - began)
        self._account()
        if self._paused or self._received or not self._affordable:
            self._read_only_if_affordable()

    def _account(self) -> None:
        """Report the memory of this connection's requests, and ask for more if the next bytes need it."""
        if self._transport is None:
            return
        frames = self._frames
        held = frames.held + self.working_bytes
        if self._received:
            held += sum(map(len, self._received))
        if not held and not self._incoming_bytes:
            return
        memory, before, wanted = self.server.memory, self._incoming_bytes, frames.room_wanted
        self._starved = wanted > 0 and not memory.may_take(self, held + wanted - before)
        if not self._starved:
            held += wanted
        self._incoming_bytes = held
        memory.changed(self, before, held)

    def _handle(self, frames: list[bytearray], began: float) -> None:
        server = self.server
        until = began + SLICE_SECONDS
        waiting = iter(self._received + frames)
        self._received = []
        for frame in waiting:
            if server.waits(frame):
                self._received = [frame, *waiting]
                return
            self._dispatch(frame, began)
            if len(frame) > 1 and frame[1] == _FETCH:
                server.settle()
            if not self._affordable or server.clock() >= until:
                self._received = list(waiting)
                return

    def _go_on(self) -> None:
        """Handle waiting frames."""
        self._going_on = None
        if not self._affordable:
            return
        began = self.server.clock()
        self._handle([], began)
        self.server.settle()
        self.server.metrics.loop_held(self.server.clock() - began)
        self._account()
        self._read_only_if_affordable()

    @property
    def arriving(self) -> bool:
        return self._frames.held > 0

    def look_again(self) -> None:
        """Check again: there may be memory for the rest of a request, or the broker has started."""
        self._account()
        self._read_only_if_affordable()

    def give_up(self, reason: str) -> None:
        self.server.log.warning("closed the connection from %s: %s", self.peer, reason)
        self.abort()

    def close_on_protocol_error(self, error: ProtocolError) -> None:
        """The bytes are not a Kafka request."""
        self.server.metrics.protocol_errors += 1
        self.server.log.warning("closed the connection from %s: %s", self.peer, error)
        self._received.clear()
        self.close()

    def _dispatch(self, frame: bytearray, received_at: float) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        open_requests = self._open
        if open_requests:
            waiting = open_requests[-1]
            if waiting.on_superseded is not None and waiting.answer is None:
                waiting.on_superseded()
        self.server.dispatch(self, frame, received_at)

    def enqueue(self, request: Request) -> None:
        self._open.append(request)

    def pause_writing(self) -> None:
        self._writable = False
        self._read_only_if_affordable()

    def resume_writing(self) -> None:
        self._writable = True
        self.last_active = self.server.clock()
        self._read_only_if_affordable()

    # ------------------------------------------------------------ answers

    def flush(self) -> None:
        """Write all answers that are next in order, in one write."""
        buffers: list[Any] = []
        open_requests = self._open
        size = 0
        while open_requests and (answer := open_requests[0].answer) is not None:
            size += open_requests.popleft().answer_bytes
            buffers += answer
        if buffers and self._transport is not None:
            self.held_bytes -= size
            server = self.server
            server.metrics.bytes_out += size
            self.last_active = server.settled_at
            self._transport.writelines(buffers)
        if self._paused:
            self._read_only_if_affordable()

    @property
    def _affordable(self) -> bool:
        limits = self.server.limits
        return (
            self._writable
            and not self._work
            and not self._starved
            and not (self._received and self.server.starting)
            and len(self._open) < limits.requests_open_max
            and self.held_bytes < limits.answer_bytes_held_max
        )

    def _read_only_if_affordable(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        affordable = self._affordable
        if affordable and self._received and self._going_on is None:
            # Not directly: the caller may be executing effects of other connections.
            self._going_on = asyncio.get_running_loop().call_soon(self._go_on)
        if not affordable or self._received:
            if not self._paused:
                self._paused = True
                self._transport.pause_reading()
        elif self._paused:
            self._paused = False
            self._transport.resume_reading()

    # ------------------------------------------------------------ work in slices

    @property
    def gone(self) -> bool:
        return self._transport is None

    @property
    def latest(self) -> str:
        """The name of the last request, for log messages."""
        return self._open[-1].name if self._open else "a request"

    def work_begun(self) -> None:
        self._work += 1
        self._read_only_if_affordable()

    def work_ended(self) -> None:
        self._work -= 1
        self._account()
        self._read_only_if_affordable()

    def failed(self, error: Exception) -> None:
        self.server.failed(self, error)

    # ------------------------------------------------------------ the end

    def idle_since(self) -> float | None:
        """The time of the last read or write; None while the client waits for an answer. A client that does
        not read its answers counts as idle."""
        waits = self._work or (self._open and self._writable)
        return None if waits else self.last_active

    def close(self) -> None:
        if self._transport is None:
            return
        if not self._writable:
            self.abort()  # a clean close would wait until the client reads
            return
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
