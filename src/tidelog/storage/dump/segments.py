"""Read and verify the batches of `.log` files.

The reader checks the CRC of every batch, that offsets and leader epochs only grow, that no batch is
incomplete, and with `records` every record. A batch with a wrong CRC is reported and skipped, since its
length may still be right. Reading ends where no batch can be recognised.

Messages of Kafka 0.10 and earlier (magic 0 and 1) are listed without their content.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import BinaryIO

from crc32c import crc32c

from tidelog.storage.dump.rows import Row, Rows, bytes_field, finding, note, unreadable
from tidelog.wire.batch import (
    COMPRESSION_BITS,
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    CorruptBatch,
    RecordBatch,
)
from tidelog.wire.records import Record, read_records

_START = Struct(">qi4xb")
"""Base offset, length, magic: at the same place in every format."""
_MESSAGE = Struct(">qiIbb")
_MESSAGE_SIZE_MIN = 14
_CONTROL_KEY = Struct(">hh")
_CONTROL_TYPES = {
    0: "abort",
    1: "commit",
    2: "leader change",
    3: "snapshot header",
    4: "snapshot footer",
    5: "kraft version",
    6: "kraft voters",
}
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_CHUNK_BYTES = 1 << 20
_BATCH_BYTES_MAX = 256 << 20
"""Larger batches are not read: by default brokers accept at most a megabyte."""


@dataclass(slots=True)
class Extent:
    """What the reader has seen so far of a segment or a partition."""

    first_offset: int = -1
    next_offset: int = -1
    batches: int = 0
    records: int = 0
    bytes: int = 0
    max_timestamp: int = -1
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """Each epoch of the batches and its first offset. An epoch lower than the one before it is left out."""
    last_epoch: int = -1
    """The epoch of the previous batch. Not the largest, so that one wrong epoch is one finding."""

    def add(self, row: Row) -> None:
        if self.first_offset < 0:
            self.first_offset = row["base_offset"]
        self.next_offset = row["last_offset"] + 1
        self.batches += 1
        self.records += row["records"]
        self.max_timestamp = max(self.max_timestamp, row["max_timestamp"])
        self.last_epoch = row["epoch"]
        if row["epoch"] > (self.epochs[-1][0] if self.epochs else -1):
            self.epochs.append((row["epoch"], row["base_offset"]))


def base_offset_of(path: Path) -> int | None:
    """The offset in a file's name, or None."""
    digits = path.name.split(".")[0]
    return int(digits) if len(digits) == 20 and digits.isdecimal() else None


def segment_rows(path: Path, seen: Extent, *, records: bool = False, gaps_allowed: bool = False) -> Rows:
    """The batches of a file. `seen` describes the files before it, and is updated."""
    try:
        with open(path, "rb", buffering=_CHUNK_BYTES) as file:
            seen.bytes += os.fstat(file.fileno()).st_size
            yield from _Scan(path, file, seen, records=records, gaps_allowed=gaps_allowed).rows()
    except OSError as error:
        seen.next_offset = -1  # the next file need not continue from this one
        yield unreadable(path, error)


class _Scan:
    def __init__(
        self, path: Path, file: BinaryIO, seen: Extent, *, records: bool, gaps_allowed: bool
    ) -> None:
        self._path = path
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._seen = seen
        self._records = records
        self._gaps_allowed = gaps_allowed
        self._base = base_offset_of(path)
        self._first = True

    def rows(self) -> Rows:
        position = 0
        while position < self._size:
            self._file.seek(position)
            head = self._file.read(HEADER_SIZE)
            end = self._end(position, head)
            if isinstance(end, str):
                rest = self._size - position
                yield finding(self._path, f"{end}; the last {rest} bytes are no batch", position)
                return
            if head[16] == MAGIC:
                yield from self._batch(position, head, end)
            else:
                yield from self._message(position, head, end)
            position = end

    def _end(self, position: int, head: bytes) -> int | str:
        """The end of the batch that starts at `position`, or why there is none."""
        if len(head) < _START.size:
            return "the file ends inside the header of a batch"
        base_offset, length, magic = _START.unpack_from(head)
        if not head.strip(b"\0"):
            return "there are zeros"
        if magic not in (0, 1, MAGIC):
            return f"there is no batch with a magic of {magic}"
        if base_offset < 0 or length < (HEADER_SIZE - LENGTH_END if magic == MAGIC else _MESSAGE_SIZE_MIN):
            return f"a batch cannot have offset {base_offset} and length {length}"
        end = position + LENGTH_END + length
        if end > self._size:
            return f"a batch of {end - position} bytes is cut off"
        return int(end)

    # ------------------------------------------------------------ since Kafka 0.11

    def _batch(self, position: int, head: bytes, end: int) -> Rows:
        base, _, epoch, _, crc, attributes, delta, *timestamps, producer, producer_epoch, sequence, count = (
            HEADER.unpack(head)
        )
        codec = attributes & COMPRESSION_BITS
        row: Row = {
            "kind": "batch",
            "file": str(self._path),
            "position": position,
            "bytes": end - position,
            "base_offset": base,
            "last_offset": base + delta,
            "epoch": epoch,
            "records": count,
            "compression": _CODECS[codec] if codec < len(_CODECS) else str(codec),
            "timestamp_type": "LogAppendTime" if attributes & TIMESTAMP_TYPE_BIT else "CreateTime",
            "base_timestamp": timestamps[0],
            "max_timestamp": timestamps[1],
            "producer_id": producer,
            "producer_epoch": producer_epoch,
            "base_sequence": sequence,
            "transactional": bool(attributes & TRANSACTIONAL_BIT),
            "control": bool(attributes & CONTROL_BIT),
            "crc_ok": self._crc(position + CRC_START, end) == crc,
        }
        yield row
        makes_sense = delta >= 0 and 0 <= count <= delta + 1
        if not row["crc_ok"]:
            yield finding(self._path, f"the CRC of batch {base}..{base + delta} does not match", position)
            if makes_sense and self._seen.next_offset in (-1, base):
                self._seen.add(row)  # most likely the header is right and the content is wrong
            return
        if not makes_sense:
            yield finding(
                self._path, f"batch {base} claims {count} records for {delta + 1} offsets", position
            )
            return
        yield from self._order(row)
        self._seen.add(row)
        if self._records:
            yield from self._look_inside(position, end)

    def _crc(self, start: int, end: int) -> int:
        """The CRC in pieces: a damaged length may span the whole file."""
        self._file.seek(start)
        crc, rest = 0, end - start
        while rest > 0:
            data = self._file.read(min(rest, _CHUNK_BYTES))
            if not data:
                return -1
            crc = crc32c(data, crc)
            rest -= len(data)
        return crc

    def _look_inside(self, position: int, end: int) -> Iterator[Row]:
        if end - position > _BATCH_BYTES_MAX:
            yield note(
                self._path, f"the batch at {position} is too large to look into: {end - position} bytes"
            )
            return
        self._file.seek(position)
        yield from _record_rows(self._path, position, self._file.read(end - position))

    def _order(self, row: Row) -> Rows:
        """Check that a batch may follow the batches before it."""
        base, position, seen = row["base_offset"], row["position"], self._seen
        if self._first and self._base is not None and base < self._base:
            yield finding(self._path, f"offset {base} is below the {self._base} in the file's name", position)
        self._first = False
        if seen.next_offset >= 0 and base < seen.next_offset:
            yield finding(self._path, f"offset {base} comes where {seen.next_offset} must", position)
        elif seen.next_offset >= 0 and base > seen.next_offset and not self._gaps_allowed:
            missing = f"{seen.next_offset}..{base - 1}"
            yield finding(
                self._path, f"offsets {missing} are missing (compacted logs have such gaps)", position
            )
        if row["epoch"] < seen.last_epoch:
            yield finding(self._path, f"epoch {row['epoch']} comes after epoch {seen.last_epoch}", position)

    # ------------------------------------------------------------ before

    def _message(self, position: int, head: bytes, end: int) -> Rows:
        offset, _, crc, magic, attributes = _MESSAGE.unpack_from(head)
        self._file.seek(position + 16)
        crc_ok = (
            end - position <= _BATCH_BYTES_MAX and zlib.crc32(self._file.read(end - position - 16)) == crc
        )
        codec = attributes & COMPRESSION_BITS
        row: Row = {
            "kind": "message",
            "file": str(self._path),
            "position": position,
            "bytes": end - position,
            "magic": magic,
            "base_offset": offset,
            "last_offset": offset,
            "epoch": -1,
            "records": 1,
            "compression": _CODECS[codec] if codec < len(_CODECS) else str(codec),
            "max_timestamp": int.from_bytes(head[18:26], "big", signed=True) if magic else -1,
            "crc_ok": crc_ok,
        }
        yield row
        if not crc_ok:
            yield finding(self._path, f"the CRC of message {offset} does not match", position)
            return
        # A compressed message contains others and has the offset of the last one, so a gap before it is
        # correct.
        if self._seen.next_offset >= 0 and offset < self._seen.next_offset:
            yield finding(self._path, f"offset {offset} comes where {self._seen.next_offset} must", position)
        self._first = False
        self._seen.add(row)


# ---------------------------------------------------------------- records


def _record_rows(path: Path, position: int, data: bytes) -> Rows:
    """`data` is the batch at `position`, its CRC verified."""
    try:
        batch = RecordBatch.parse(data)
        for record in read_records(batch):
            yield _row(path, record, control=batch.is_control)
    except CorruptBatch as error:
        yield finding(path, str(error), position)


def _row(path: Path, record: Record, *, control: bool) -> Row:
    row: Row = {"kind": "record", "file": str(path), "offset": record.offset, "timestamp": record.timestamp}
    if control:
        row["control"] = _control_type(record.key)
        return row
    row |= bytes_field("key", record.key) | bytes_field("value", record.value)
    row["headers"] = [{"name": name, **bytes_field("value", value)} for name, value in record.headers]
    return row


def _control_type(key: bytes | None) -> str:
    try:
        _, number = _CONTROL_KEY.unpack_from(key or b"")
    except StructError:
        return "unknown"
    return _CONTROL_TYPES.get(number, f"type {number}")
