"""A file of consecutive batches: written at its end, verified when read.

Rules of this file:

* ``size`` decides where the file ends. A failed write is undone, and every write names its position, so bytes
  beyond ``size`` are never read and never become part of the log.
* Bytes from the disk are verified before they are returned: the CRC, and the base offset that is expected at
  this position. Base offset and length are not under the CRC, hence the second check. Where compaction
  removed records (``sparse``) there may be a gap before a batch, but offsets still only grow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from tidelog.core.log_port import StorageFailure
from tidelog.core.types import Millis, Offset
from tidelog.storage.errors import CorruptLog
from tidelog.storage.reserves import BEGINS_AT_BYTES, NEVER
from tidelog.storage.resources import OpenFiles
from tidelog.wire.batch import HEADER_SIZE, LENGTH_END, MAGIC, CorruptBatch, RecordBatch

CHUNK_BYTES = 1 << 20
_WALK_BYTES = 8192
_WALK_HEADER = Struct(">qi4xb6xi")
"""Base offset, length, magic, last offset delta."""
_FULLER_HEADER = Struct(">qi4xb6xi8xq")
"""The same and, after the base timestamp, the largest one."""
_LENGTH = Struct(">8xi")


class BatchHeader(NamedTuple):
    base_offset: Offset
    last_offset: Offset
    max_timestamp: Millis


class BatchFile:
    __slots__ = (
        "_descriptor",
        "_open_files",
        "_reserve_at",
        "active",
        "base_offset",
        "path",
        "size",
        "sparse",
    )

    def __init__(self, path: Path, base_offset: Offset, open_files: OpenFiles) -> None:
        self.path = path
        self.base_offset = base_offset
        self.size = 0
        self.active = False
        """The log writes to this file, so it stays open."""
        self.sparse = False
        """Offsets may be missing before a batch, because compaction removed them."""
        self._open_files = open_files
        self._descriptor = -1
        self._reserve_at = NEVER if open_files.reserves is None else BEGINS_AT_BYTES
        """The size at which space for more is allocated."""

    # ------------------------------------------------------------ open and closed

    def open_for_writing(self, *, create: bool = False) -> None:
        self.close_file()
        self._open_files.forget(self)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if create else 0)
        self._descriptor = os.open(self.path, flags, 0o644)
        self.active = True
        if not create:
            self._give_back_of_former()

    def _give_back_of_former(self) -> None:
        """A process that was killed has left the reserve of this file."""
        with suppress(OSError):
            file = os.fstat(self._descriptor)
            if file.st_blocks * 512 > file.st_size + BEGINS_AT_BYTES:
                os.ftruncate(self._descriptor, file.st_size)

    def descriptor(self) -> int:
        if not self.active:
            if self._descriptor < 0:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            self._open_files.used(self)
        return self._descriptor

    def duplicate_descriptor(self) -> int:
        """A duplicate descriptor: a thread can sync and close it even if this file is closed meanwhile."""
        return os.dup(self.descriptor())

    def twin(self) -> BatchFile:
        """A copy of this object with its own descriptor: a thread can read it even if this file changes
        meanwhile."""
        twin = BatchFile(self.path, self.base_offset, self._open_files)
        twin.size, twin.sparse = self.size, self.sparse
        twin._descriptor = self.duplicate_descriptor()
        # Not counted among the event loop's open files.
        twin.active = True
        return twin

    def close_file(self) -> None:
        if self._forget_reserve():
            self.give_back()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # ------------------------------------------------------------ writing

    def write(self, data: memoryview) -> None:
        """Append. If the system does not write all of it, none of it remains and ``StorageFailure`` is
        raised."""
        position = self.size
        end = position + len(data)
        try:
            if end > self._reserve_at:
                self._reserve(end)
            written = os.pwrite(self._descriptor, data, position)
            if written != len(data):
                self._write_rest(data, position, written)
        except OSError as error:
            if not self._made_room():
                raise self._undo(error) from None
            self.write(data)
        self.size = end

    def _reserve(self, end: int) -> None:
        reserves = self._open_files.reserves
        assert reserves is not None
        self._reserve_at = reserves.extend(self, self._descriptor, self.size, end)

    def _made_room(self) -> bool:
        """The disk may be full because of what is reserved on it: now nothing is."""
        reserves = self._open_files.reserves
        return reserves is not None and reserves.give_back()

    def give_back(self) -> None:
        """Free the space that is allocated beyond the end. Some is allocated again when the file has grown as
        far as it reached."""
        with suppress(OSError):
            os.ftruncate(self._descriptor, self.size)

    def _forget_reserve(self) -> bool:
        reserves = self._open_files.reserves
        if reserves is None:
            return False
        self._reserve_at = BEGINS_AT_BYTES
        return reserves.forget(self)

    def _write_rest(self, data: memoryview, position: int, written: int) -> None:
        """The system wrote only a part. Continue until it writes the rest or reports an error."""
        while written < len(data):
            more = os.pwrite(self._descriptor, data[written:], position + written)
            if more == 0:
                raise OSError("the file takes no more bytes")
            written += more

    def _undo(self, error: OSError) -> StorageFailure:
        # If this fails too, the next append overwrites the remains, or the next trim removes them.
        with suppress(OSError):
            os.ftruncate(self._descriptor, self.size)
        return StorageFailure(f"cannot write to {self.path}: {error.strerror or error}")

    def cut(self, position: int) -> None:
        os.ftruncate(self._descriptor, position)
        self.size = position
        self._forget_reserve()

    def trim(self) -> None:
        """Truncate the file to ``size``, and give its reserve back."""
        if self._forget_reserve() or os.fstat(self._descriptor).st_size != self.size:
            os.ftruncate(self._descriptor, self.size)

    # ------------------------------------------------------------ reading

    def read_at(self, position: int, expected: Offset, max_bytes: int) -> list[RecordBatch]:
        """The batch at ``position``, of any size, and as many more as fit ``max_bytes``."""
        if position >= self.size:
            return []
        return list(self._verified(self._load(position, min(max_bytes, CHUNK_BYTES)), position, expected))

    def scan(self, position: int, expected: Offset) -> Iterator[tuple[int, RecordBatch]]:
        """Every batch from ``position`` on, with its position. Raises ``CorruptLog`` at the first invalid
        batch."""
        while position < self.size:
            for batch in self._verified(self._load(position, CHUNK_BYTES), position, expected):
                yield position, batch
                position += len(batch.data)
                expected = batch.next_offset

    def walk(self, position: int, expected: Offset, offset: Offset) -> tuple[int, Offset]:
        """From a batch at ``position`` that starts with ``expected``, skip batches that end before
        ``offset``. Returns position and base offset of the first that does not. If offsets are missing before
        that batch, the first of those is returned in its place.

        Only headers are read. That is enough: a wrong header leads to a position where the next check fails.
        """
        block, block_start = b"", position
        while position < self.size:
            if position - block_start + HEADER_SIZE > len(block):
                block_start = position
                block = os.pread(self.descriptor(), min(_WALK_BYTES, self.size - position), position)
                if len(block) < HEADER_SIZE:
                    raise CorruptLog(self.path, position, "the file ends inside a batch")
            base_offset, length, magic, delta = _WALK_HEADER.unpack_from(block, position - block_start)
            if magic != MAGIC or length < HEADER_SIZE - LENGTH_END or delta < 0:
                raise CorruptLog(self.path, position, f"there is no batch with offset {expected}")
            if base_offset != expected and not (self.sparse and base_offset > expected):
                raise CorruptLog(self.path, position, f"there is no batch with offset {expected}")
            if base_offset + delta >= offset:
                break
            if position + LENGTH_END + length > self.size:
                raise CorruptLog(self.path, position, f"the batch {expected} reaches beyond the file")
            position += LENGTH_END + length
            expected = base_offset + delta + 1
        return position, expected

    def header_at(self, position: int) -> BatchHeader | None:
        """The unverified header of the batch at ``position``; None if there is clearly no batch."""
        if not 0 <= position <= self.size - HEADER_SIZE:
            return None
        block = os.pread(self.descriptor(), HEADER_SIZE, position)
        if len(block) < HEADER_SIZE:
            return None
        base_offset, _, magic, delta, max_timestamp = _FULLER_HEADER.unpack_from(block)
        return BatchHeader(base_offset, base_offset + delta, max_timestamp) if magic == MAGIC else None

    def _load(self, position: int, wanted: int) -> bytes:
        """The bytes from ``position`` on: ``wanted`` of them, or the whole batch there if it is larger."""
        available = self.size - position
        data = os.pread(self.descriptor(), min(max(wanted, HEADER_SIZE), available), position)
        if len(data) < HEADER_SIZE:
            raise CorruptLog(self.path, position, "the file ends inside the header of a batch")
        needed = LENGTH_END + _LENGTH.unpack_from(data)[0]
        if needed > len(data):
            if needed <= available:
                data = os.pread(self.descriptor(), needed, position)
            if needed > len(data):
                raise CorruptLog(
                    self.path, position, f"a batch of {needed} bytes, but only {len(data)} follow"
                )
        return data

    def _verified(self, data: bytes, position: int, expected: Offset) -> Iterator[RecordBatch]:
        """The complete batches in ``data``, which was read at ``position``."""
        view = memoryview(data)
        at, limit = 0, len(data)
        while limit - at >= HEADER_SIZE:
            try:
                batch = RecordBatch.parse(view, at)
            except CorruptBatch as error:
                if at + LENGTH_END + _LENGTH.unpack_from(data, at)[0] > limit:
                    return
                raise CorruptLog(self.path, position + at, str(error)) from None
            base_offset, next_offset = batch.base_offset, batch.next_offset
            if next_offset <= base_offset or (
                base_offset != expected and not (self.sparse and base_offset > expected)
            ):
                found = f"offsets {base_offset}..{next_offset - 1}"
                raise CorruptLog(self.path, position + at, f"{found} where {expected} must come")
            if not batch.crc_ok():
                raise CorruptLog(self.path, position + at, f"the CRC of the batch {expected} does not match")
            yield batch
            at += len(batch.data)
            expected = next_offset
