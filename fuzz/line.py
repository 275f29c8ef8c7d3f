"""One connection: frames out, answers in, and whether each frame got what it had to get.

A burst is a few frames written at once. At most one of them, the last, must be refused or may wait: whatever
comes behind such a frame is never looked at. Answers must come in the order of the requests, with their ids,
and be what the version of the request says.

Patience is measured in time that the broker had: what it waits for a processor is added (`starvation.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from enum import Enum
from struct import Struct
from typing import Final, NamedTuple, cast

from fuzz.frames import Fate, Frame, How
from fuzz.layout import CORRELATION_AT
from fuzz.starvation import waited_seconds
from tidelog.wire.api import Api, RequestHeader, decode_response
from tidelog.wire.errors import ProtocolError

_SIZE: Final = Struct(">i")
_API_VERSIONS: Final = Struct(">hhih").pack(Api.API_VERSIONS, 0, 0, -1)
_DECODED_BYTES_MAX: Final = 64 * 1024
"""Larger answers hold records, which nobody here understands better than the broker."""

_LAST_LOOK_SECONDS: Final = 0.02
_PATIENCE_TIMES_MAX: Final = 10
"""So many times the limit is waited for a broker that gets no processor."""

QUESTION: Final = Frame(
    -1, _API_VERSIONS, How.NOTHING, Fate.ANSWER, RequestHeader(Api.API_VERSIONS, 0, 0, None)
)
"""Sent behind frames that are not answered: its answer says that they were taken."""


class End(Enum):
    ANSWERED = "answered"
    CLOSED = "closed"
    """As it had to be."""
    REFUSED = "refused"
    """Closed although every frame could be decoded: a handler found it to be nonsense."""
    CUT_OFF = "cut off"
    """It waited for followers or for its turn when a later frame closed the connection."""
    LEFT = "left"
    """It waited, as it asked for, and we went away."""
    HUNG = "hung"
    """Neither answered nor closed in time."""
    WRONG = "wrong"
    """An answer that no request can have."""


class Ended(NamedTuple):
    end: End
    answered: int
    """How many frames of the burst had their answer."""
    why: str = ""


class Line(asyncio.Protocol):
    """A connection to one broker. Made by `open_line`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.local_port = 0
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._expected: list[Frame] = []
        """What is still to be answered, in order."""
        self._answered = 0
        self._next_id = 1
        self._first_id = 1
        self._changed: asyncio.Future[None] | None = None
        self._wrong = ""

    # ------------------------------------------------------------ the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.local_port = transport.get_extra_info("sockname")[1]

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._wake()

    def data_received(self, data: bytes) -> None:
        self._received += data
        start = 0
        while len(self._received) - start >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._received, start)
            end = start + _SIZE.size + size
            if size < 0 or end > len(self._received):
                break
            self._take(self._received[start + _SIZE.size : end])
            start = end
        del self._received[:start]
        if self._wrong or len(self._expected) <= 1:
            self._wake()

    def _take(self, answer: bytearray) -> None:
        if not self._expected:
            self._wrong = self._wrong or f"{len(answer)} bytes that answer no request"
            return
        frame = self._expected.pop(0)
        self._answered += 1
        try:
            self._wrong = self._wrong or _fault(frame, self._first_id, answer)
        except ProtocolError as error:
            self._wrong = self._wrong or f"the answer to {frame.named} is no answer: {error}"
        self._first_id += 1

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    # ------------------------------------------------------------ a burst

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def burst(self, frames: Sequence[Frame], patience_seconds: float, wait_seconds: float) -> Ended:
        """Send these and see what becomes of them. A frame that may wait is given `wait_seconds`."""
        assert self._transport is not None
        self._answered = 0
        last = frames[-1].fate
        sent = [*frames, QUESTION] if last is Fate.SILENCE else frames
        self._transport.writelines(self._framed(sent))
        waiting = 1 if last is Fate.WAIT else 0
        if not await self._until(waiting, patience_seconds, closes=last is Fate.CLOSE):
            silent = self._expected[0] if self._expected else frames[-1]
            return Ended(End.HUNG, self._answered, f"{silent.named}: no answer in {patience_seconds:g} s")
        if waiting and not await self._until(0, wait_seconds):
            return Ended(End.LEFT, self._answered)
        return self._judged(last)

    def _judged(self, last: Fate) -> Ended:
        if self._wrong:
            return Ended(End.WRONG, self._answered, self._wrong)
        if self.is_open:
            return Ended(End.ANSWERED, self._answered)
        return Ended(End.CLOSED if last is Fate.CLOSE else End.REFUSED, self._answered)

    def _framed(self, frames: Iterable[Frame]) -> list[bytes]:
        out = []
        for frame in frames:
            data = with_id(frame.data, self._next_id)
            if frame.fate in (Fate.ANSWER, Fate.WAIT):
                self._expected.append(frame)
            if frame.fate is not Fate.CLOSE and frame.fate is not Fate.SILENCE:
                self._next_id += 1
            out += [_SIZE.pack(len(data)), data]
        return out

    async def _until(self, unanswered: int, seconds: float, *, closes: bool = False) -> bool:
        """Until no more than so many answers are to come, or the connection is closed."""
        loop = asyncio.get_running_loop()
        began, waited = loop.time(), waited_seconds(self._pid)
        deadline = began + seconds
        read_all = False
        while self.is_open and not self._wrong and (closes or len(self._expected) > unanswered):
            left = deadline - loop.time()
            if left <= 0 and read_all:
                starved = min(waited_seconds(self._pid) - waited, (_PATIENCE_TIMES_MAX - 1) * seconds)
                deadline = began + seconds + starved
                left = deadline - loop.time()
                if left <= 0:
                    return False
            # On a crowded machine it may be us who are late: what has come by now is read before we complain.
            read_all, left = left <= 0, max(left, _LAST_LOOK_SECONDS)
            self._changed = loop.create_future()
            handle = loop.call_later(left, self._wake)
            await self._changed
            handle.cancel()
        return True

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def with_id(data: bytes, number: int) -> bytes:
    """The frame with this correlation id, if it has room for one."""
    end = CORRELATION_AT + _SIZE.size
    return data[:CORRELATION_AT] + _SIZE.pack(number) + data[end:] if len(data) >= end else data


def _fault(frame: Frame, number: int, answer: bytearray) -> str:
    """What is wrong with the answer to a frame; nothing if nothing is."""
    if len(answer) < _SIZE.size or _SIZE.unpack_from(answer)[0] != number:
        return f"{frame.named} is answered with another request's id"
    if frame.header is not None and len(answer) <= _DECODED_BYTES_MAX:
        decode_response(frame.header.api_key, frame.header.api_version, answer)
    return ""


async def open_line(host: str, port: int, pid: int = 0) -> Line:
    """`pid` of the broker. Raises `OSError`."""
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(lambda: Line(pid), host, port)
    return line
