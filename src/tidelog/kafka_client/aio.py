"""Connections to brokers for asyncio: a lasting one, and single requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Any, cast

from tidelog.wire.api import Api, decode_response, encode_request
from tidelog.wire.errors import ProtocolError
from tidelog.wire.frames import FrameReader

FRAME_BYTES_MAX = 256 * 1024 * 1024
_LENGTH = Struct(">i")

Address = tuple[str, int]


class Connection(asyncio.BufferedProtocol):
    """One connection of a client. Requests sent before it is connected wait; responses are matched with their
    requests. A connection that has ended is not reopened."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        address: Address,
        on_answer: Callable[[Any, Any], None],
        on_end: Callable[[Connection], None],
    ) -> None:
        """``on_answer`` receives the ``asked`` that was passed to ``send``, and the body of the response."""
        self._name = name
        self._on_answer = on_answer
        self._on_end = on_end
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._unanswered: deque[tuple[int, Api, int, Any]] = deque()
        self._correlation = 0
        self.ended = False
        self._connecting = loop.create_task(self._connect(address))

    async def _connect(self, address: Address) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, *address)
        except OSError:
            self._end()

    def send(self, api: Api, version: int, body: Any, asked: Any) -> None:
        """``asked`` None: the broker sends no response."""
        self._correlation += 1
        if asked is not None:
            self._unanswered.append((self._correlation, api, version, asked))
        data = b"".join(encode_request(api, version, self._correlation, self._name, body))
        if self._transport is None:
            self._unsent.append(data)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self.ended = True
        self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _end(self) -> None:
        if not self.ended:
            self.ended = True
            self._on_end(self)

    # ------------------------------------------------------------ called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.ended:
            self._transport.abort()
        for data in self._unsent:
            self._transport.write(data)
        self._unsent.clear()

    def connection_lost(self, _error: Exception | None) -> None:
        self._end()

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                self._answered(frame)
        except ProtocolError:
            if self._transport is not None:
                self._transport.abort()

    def _answered(self, frame: bytearray) -> None:
        if self.ended:
            return
        if not self._unanswered:
            raise ProtocolError("an answer without a request")
        expected, api, version, asked = self._unanswered.popleft()
        correlation, body = decode_response(api, version, frame)
        if correlation != expected:
            raise ProtocolError(f"the answer to request {correlation}, expected {expected}")
        self._on_answer(asked, body)


# ---------------------------------------------------------------- single requests


async def ask(address: Address, api: Api, version: int, body: Any, timeout_s: float) -> Any:
    """Send one request on a new connection and return the response. Raises ``OSError`` on failure or
    time-out."""
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(*address)
        try:
            writer.write(b"".join(encode_request(api, version, 1, "trial", body)))
            (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
            return decode_response(api, version, await reader.readexactly(size))[1]
        except (asyncio.IncompleteReadError, ProtocolError) as error:
            raise ConnectionError(str(error)) from None
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def get_page(address: Address, path: str, timeout_s: float) -> str:
    """The response of an HTTP server. Raises ``OSError`` on failure or time-out."""
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(*address)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: trial\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read(-1)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise ConnectionError("no page")
    return body.decode("utf-8")
