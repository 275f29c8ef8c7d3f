"""Batches of a segment file by their headers, for files of any size in bounded memory.

Rules of the file: only what is whole counts. A walk ends at the first place that is no batch, which is a torn
tail, allocated space, or damage; the audit tells these apart. Nothing that an index says is believed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from tidelog.wire.batch import (
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL_BIT,
    RecordBatch,
)

_INDEX_ENTRY: Final = Struct(">ii")
_OLD_LENGTH_MIN: Final = 14
_WINDOW: Final = 1 << 20
_BATCH_BYTES_MAX: Final = 128 << 20


class Header(NamedTuple):
    position: int
    end_position: int
    base_offset: int
    next_offset: int
    magic: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    leader_epoch: int = -1

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)


class SegmentFile:
    """An open segment file. Use with `with`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.base_offset = int(path.stem)
        self._fd = os.open(path, os.O_RDONLY)
        self.size = os.fstat(self._fd).st_size
        self._window = b""
        self._window_at = 0

    def __enter__(self) -> SegmentFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def _read(self, count: int, position: int) -> bytes:
        """Few reads for many headers: what lies around is kept."""
        at = position - self._window_at
        if at < 0 or at + count > len(self._window):
            self._window = os.pread(self._fd, max(count, _WINDOW), position)
            self._window_at, at = position, 0
        return self._window[at : at + count]

    def headers(self, position: int = 0) -> Iterator[Header]:
        """The whole batches from there on."""
        while (header := self._header(position)) is not None:
            yield header
            position = header.end_position

    def _header(self, position: int) -> Header | None:
        data = self._read(min(HEADER_SIZE, self.size - position), position)
        if len(data) < LENGTH_END + _OLD_LENGTH_MIN:
            return None
        base, length, magic = (
            int.from_bytes(data[0:8], "big", signed=True),
            int.from_bytes(data[8:12], "big", signed=True),
            data[16],
        )
        end = position + LENGTH_END + length
        if magic < MAGIC and length >= _OLD_LENGTH_MIN and end <= self.size:
            # A message set of before 0.11: the offset is that of its last message.
            return Header(position, end, base, base + 1, magic, 0, -1, -1, -1, -1)
        if magic != MAGIC or length < HEADER_SIZE - LENGTH_END or end > self.size or base < 0:
            return None
        _, _, led, _, _, attributes, delta, first, last, producer, epoch, _, _ = HEADER.unpack(data)
        following = base + delta + 1
        return Header(position, end, base, following, magic, attributes, first, last, producer, epoch, led)

    def batch(self, header: Header) -> RecordBatch:
        """The batch with its records. Raises `CorruptBatch` or `ValueError`."""
        size = header.end_position - header.position
        if size > _BATCH_BYTES_MAX:
            raise ValueError(f"a batch of {size} bytes")
        return RecordBatch.parse(self._read(size, header.position))

    def end(self) -> tuple[int, int]:
        """The offset behind the last whole batch, and its position. The index saves most of the walk."""
        offset, position = self.base_offset, 0
        for header in self.headers(self._last_indexed()):
            offset, position = header.next_offset, header.end_position
        return offset, position

    def _last_indexed(self) -> int:
        """The position of the last batch that the offset index knows; 0 if it knows none."""
        try:
            fd = os.open(self.path.with_suffix(".index"), os.O_RDONLY)
        except OSError:
            return 0
        try:
            # Entries grow; behind them Kafka leaves zeros in an index that it still writes to.
            low, high = 0, os.fstat(fd).st_size // _INDEX_ENTRY.size
            while low < high:
                middle = (low + high) // 2
                if _INDEX_ENTRY.unpack(os.pread(fd, _INDEX_ENTRY.size, middle * _INDEX_ENTRY.size))[1]:
                    low = middle + 1
                elif middle == 0:
                    low = 1  # the first entry may be at position 0
                else:
                    high = middle
            if not low:
                return 0
            relative, position = _INDEX_ENTRY.unpack(
                os.pread(fd, _INDEX_ENTRY.size, (low - 1) * _INDEX_ENTRY.size)
            )
        finally:
            os.close(fd)
        header = self._header(position) if 0 <= position < self.size else None
        expected = self.base_offset + relative
        return position if header is not None and header.next_offset - 1 == expected else 0

    def zeros_from(self, position: int) -> bool:
        """Whether the file has nothing but zeros from there on, and at least one."""
        if position >= self.size:
            return False
        while position < self.size:
            chunk = os.pread(self._fd, _WINDOW, position)
            if not chunk or chunk.strip(b"\0"):
                return False
            position += len(chunk)
        return True
