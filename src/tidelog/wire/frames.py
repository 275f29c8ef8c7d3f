"""Cuts a byte stream into Kafka's frames: a 4-byte size, then that many bytes.

Made for asyncio's ``BufferedProtocol``: the transport asks where to put the next bytes and says how many
came. Small frames are read many at a time into one scratch buffer that *all* connections of a thread share
(nothing stays in it between two calls) and are copied out; a frame that is not complete gets a buffer of its
own, and the rest of it is received straight into that. Either way a frame owns its bytes: a caller may keep a
slice without copying.

A size is not trusted. A size above the limit is refused before any allocation. Below the limit memory follows
the bytes received: a frame's own buffer is at most ``GROWTH`` times as large as what has arrived.
``room_wanted`` is the memory that the next read needs, so that a server with many streams can delay one.

A large buffer is not filled with zeros first: for a megabyte that takes longer than everything else that is
done here, and every byte of it is received before a caller sees the frame.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from tidelog.wire.errors import ProtocolError

_SIZE = Struct(">i")
SCRATCH_BYTES = 256 * 1024
GROWTH = 8
FIRST_ROOM_BYTES = 4096
UNZEROED_BYTES = 32 * 1024
"""Below this size the call costs as much as the zeros."""
_scratch = memoryview(bytearray(SCRATCH_BYTES))


def _unzeroed_allocator() -> Callable[[Any, int], bytearray] | None:
    """CPython's own constructor of a bytearray, which leaves the content as it is. None where Python has no
    ctypes, for example in a browser."""
    try:
        from ctypes import c_char_p, c_ssize_t, py_object, pythonapi

        allocate = pythonapi.PyByteArray_FromStringAndSize
    except (ImportError, AttributeError, OSError):
        return None
    allocate.restype, allocate.argtypes = py_object, (c_char_p, c_ssize_t)
    return allocate


_allocate = _unzeroed_allocator()


def _buffer_of(size: int) -> bytearray:
    if size < UNZEROED_BYTES or _allocate is None:
        return bytearray(size)
    return _allocate(None, size)


class FrameReader:
    __slots__ = ("_filled", "_frame", "_head", "_max_bytes", "_size")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._head = b""
        """The first 1 to 3 bytes of a size, until the rest arrives."""
        self._frame: bytearray | None = None
        """The incomplete frame: ``_filled`` bytes of ``_size`` have arrived. The buffer may be shorter than
        ``_size``."""
        self._filled = 0
        self._size = 0

    @property
    def held(self) -> int:
        """The memory of the incomplete frame."""
        return 0 if self._frame is None else len(self._frame)

    @property
    def room_wanted(self) -> int:
        """How much more memory the next ``buffer`` call takes for it."""
        if self._frame is None or self._filled < len(self._frame):
            return 0
        return self._room() - self._filled

    def buffer(self) -> memoryview:
        """The buffer for the next bytes of the stream."""
        if self._frame is not None:
            if self._filled == len(self._frame):
                # A copy: the transport may still hold a view of the old one, which then cannot be resized.
                frame, self._frame = self._frame, _buffer_of(self._room())
                self._frame[: self._filled] = frame
            return memoryview(self._frame)[self._filled :]
        head = self._head
        if head:
            _scratch[: len(head)] = head
            return _scratch[len(head) :]
        return _scratch

    def drop(self) -> None:
        """Free the incomplete frame: the stream has ended."""
        self._frame = None
        self._head = b""

    def received(self, count: int) -> list[bytearray]:
        """``count`` bytes were put into ``buffer()``: the frames that are complete now."""
        if self._frame is not None:
            self._filled += count
            if self._filled < self._size:
                return []
            frame, self._frame = self._frame, None
            return [frame]
        end = len(self._head) + count
        if end >= 4:
            (size,) = _SIZE.unpack_from(_scratch)
            if size == end - 4 and size <= self._max_bytes:
                # One whole frame and nothing else: nearly every read of a client that waits for answers.
                self._head = b""
                return [bytearray(_scratch[4:end])]
        return self._cut(end)

    def _cut(self, end: int) -> list[bytearray]:
        frames = []
        position = 0
        self._head = b""
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(_scratch, position)
            if not 0 <= size <= self._max_bytes:
                raise ProtocolError(f"a frame of {size} bytes; allowed are 0 to {self._max_bytes}")
            position += 4
            there = end - position
            if there >= size:
                frames.append(bytearray(_scratch[position : position + size]))
                position += size
                continue
            self._size = size
            self._filled = there
            self._frame = _buffer_of(self._room())
            self._frame[:there] = _scratch[position:end]
            return frames
        self._head = bytes(_scratch[position:end])
        return frames

    def _room(self) -> int:
        return min(self._size, max(self._filled * GROWTH, FIRST_ROOM_BYTES))
