"""A connection to another broker that reconnects by itself: requests out, answers in, in order.

Requests queue until the first connection is open. When a connection breaks or cannot be opened, everything
queued or unanswered is dropped, and ``on_reconnect`` is called after the next connection is open. Attempts
continue with growing pauses as long as the metadata lists the peer as alive. A peer that answers no request
for half a minute (its machine is down, its process hangs) counts as lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

from tidelog.broker.error_messages import reason
from tidelog.core.types import BrokerEndpoint
from tidelog.wire.api import Api, decode_response, encode_request
from tidelog.wire.errors import ProtocolError
from tidelog.wire.frames import FrameReader
from tidelog.wire.one_partition import CLIENT_ID, FETCH_VERSION, read_fetched, write_fetch

PAUSE_SECONDS_MIN = 0.02
PAUSE_SECONDS_MAX = 1.0
CONNECT_SECONDS_MAX = 3.0
ANSWER_SECONDS_MAX = 30.0
QUEUE_MAX = 10_000
FRAME_BYTES_MAX = 256 * 1024 * 1024


class PeerConnection:
    def __init__(
        self,
        endpoint: Callable[[], BrokerEndpoint | None],
        on_answer: Callable[[Any, Any], None],
        on_reconnect: Callable[[], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        """``endpoint`` returns the peer's address, None if it is not alive. ``on_answer`` is called with the
        ``asked`` of ``send`` and the decoded body, which is a ``FetchedOne`` for a fetch that is answered for
        one partition; ``on_trouble`` is called with the reason of a failure."""
        self._endpoint = endpoint
        self._on_answer = on_answer
        self._on_reconnect = on_reconnect
        self._on_trouble = on_trouble
        self._loop = asyncio.get_running_loop()
        self._line: _Line | None = None
        self._where: BrokerEndpoint | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._queue: list[tuple[int, int, Any, Any]] = []
        self._lost = False
        """Requests were dropped since the last connection: the caller must send them again."""
        self._closed = False

    @property
    def usable(self) -> bool:
        """Whether requests can be sent now, or wait for the first connection."""
        return not self._lost

    def send(self, api: int, version: int, body: Any, asked: Any) -> None:
        if self._line is not None:
            self._line.send(api, version, body, asked)
        elif self._lost or self._closed or len(self._queue) >= QUEUE_MAX:
            self._lost = True
            self._connect()
        else:
            self._queue.append((api, version, body, asked))
            self._connect()

    def send_one(self, fetch: Sequence[Any], asked: Any) -> bool:
        """Send a fetch for one partition, the fields of ``write_fetch`` after the correlation id. False if
        there is no connection."""
        if self._line is None:
            return False
        self._line.send_one(fetch, asked)
        return True

    def endpoint_changed(self) -> None:
        endpoint = self._endpoint()
        if self._line is not None and endpoint is not None and endpoint != self._where:
            self._line.abort()
        if self._lost or self._queue:
            self._connect()

    def close(self) -> None:
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._line is not None:
            self._line.abort()

    # ------------------------------------------------------------ connecting

    def _connect(self) -> None:
        if self._connecting is None and self._line is None and not self._closed:
            self._connecting = self._loop.create_task(self._attempt())

    async def _attempt(self) -> None:
        pause = PAUSE_SECONDS_MIN
        try:
            while (where := self._endpoint()) is not None:
                try:
                    async with asyncio.timeout(CONNECT_SECONDS_MAX):
                        _, line = await self._loop.create_connection(
                            lambda: _Line(self), where.host, where.port
                        )
                except OSError as error:
                    self._on_trouble(f"no connection to {where.host}:{where.port}, {reason(error)}")
                    self._drop()
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, PAUSE_SECONDS_MAX)
                else:
                    self._connecting = None
                    self._connected(line, where)
                    return
            self._drop()
        finally:
            self._connecting = None

    def _connected(self, line: _Line, where: BrokerEndpoint) -> None:
        if line.transport is None or line.transport.is_closing():
            self._drop()
            self._loop.call_later(PAUSE_SECONDS_MIN, self._connect)
            return
        self._line, self._where = line, where
        queue, self._queue = self._queue, []
        for request in queue:
            line.send(*request)
        if self._lost:
            self._lost = False
            self._on_reconnect()

    def _drop(self) -> None:
        self._lost = True
        self._queue.clear()

    # ------------------------------------------------------------ called by the line

    def answered(self, asked: Any, body: Any) -> None:
        self._on_answer(asked, body)

    def broke(self, line: _Line, reason: str) -> None:
        if line is self._line:
            self._line = None
            self._drop()
            if not self._closed:
                self._on_trouble(reason)
                self._connect()


class _Line(asyncio.BufferedProtocol):
    """One TCP connection: numbers the requests and matches the answers."""

    def __init__(self, owner: PeerConnection) -> None:
        self._owner = owner
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self._correlation = 0
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.TimerHandle | None = None
        self._reason = "closed by the other side"
        self.transport: asyncio.Transport | None = None
        self.unanswered: deque[tuple[int, int, int, Any, float]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self.transport = None
        self.unanswered.clear()
        self._owner.broke(self, reason(error) if error is not None else self._reason)

    def send(self, api: int, version: int, body: Any, asked: Any) -> None:
        if self.transport is not None:
            number = self._number(api, version, asked)
            self.transport.writelines(encode_request(api, version, number, CLIENT_ID, body))

    def send_one(self, fetch: Sequence[Any], asked: Any) -> None:
        if self.transport is not None:
            self.transport.write(write_fetch(self._number(Api.FETCH, FETCH_VERSION, asked), *fetch))

    def _number(self, api: int, version: int, asked: Any) -> int:
        """Expect an answer, with this correlation id."""
        self._correlation = number = (self._correlation + 1) & 0x7FFFFFFF
        self.unanswered.append((number, api, version, asked, self._loop.time()))
        if self._watch is None:
            self._watch = self._loop.call_later(ANSWER_SECONDS_MAX, self._check_progress)
        return number

    def _check_progress(self) -> None:
        self._watch = None
        if not self.unanswered:
            return
        waited = self._loop.time() - self.unanswered[0][4]
        if waited >= ANSWER_SECONDS_MAX:
            self._reason = f"no answer for {waited:.0f} s"
            self.abort()
        else:
            self._watch = self._loop.call_later(ANSWER_SECONDS_MAX - waited, self._check_progress)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                self._answer(frame)
        except ProtocolError as error:
            self._reason = str(error)
            self.abort()

    def _answer(self, frame: bytearray) -> None:
        if not self.unanswered:
            raise ProtocolError("an answer without a request")
        expected, api, version, asked, _ = self.unanswered.popleft()
        one = read_fetched(frame) if api == Api.FETCH else None
        correlation, body = decode_response(api, version, frame) if one is None else (one.correlation_id, one)
        if correlation != expected:
            raise ProtocolError(f"the answer to request {correlation}, expected {expected}")
        self._owner.answered(asked, body)
