"""The record batch of magic 2. A broker stores, sends and stamps batches without reading their records.

    0 base offset i64 | 8 length i32 | 12 partition leader epoch i32 | 16 magic i8 | 17 crc u32 |
    21 attributes i16 | 23 last offset delta i32 | 27 base timestamp i64 | 35 max timestamp i64 |
    43 producer id i64 | 51 producer epoch i16 | 53 base sequence i32 | 57 count i32 | 61 records

`length` counts what follows it. The CRC-32C covers everything from the attributes on, so base offset and
leader epoch can be stamped in place while the producer's bytes, compressed or not, stay as they came.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from struct import error as StructError

from crc32c import crc32c

from tidelog.wire.compression import Compression
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.primitives import Buffer

MAGIC = 2
HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
LENGTH_END = 12
_LEAST_LENGTH = HEADER_SIZE - LENGTH_END
CRC_START = 21

TIMESTAMP_TYPE_BIT = 1 << 3
TRANSACTIONAL_BIT = 1 << 4
CONTROL_BIT = 1 << 5
COMPRESSION_BITS = 0b111

_CODEC_MAX = int(max(Compression))
_VALID = ErrorCode.NONE

_OFFSET_LENGTH_EPOCH = Struct(">qii")
_OFFSET_LENGTH = Struct(">qi")
_CRC_ATTRIBUTES = Struct(">Ih")
_INT64 = Struct(">q")


class TimestampType(IntEnum):
    """Which clock set the timestamps of a batch: the producer's or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class CorruptBatch(ProtocolError):
    """The bytes are not a valid record batch."""


class RecordBatch:
    """One batch: its header's fields, and `data`, exactly its bytes."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "data",
        "leader_epoch",
        "max_timestamp",
        "next_offset",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    data: memoryview
    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def parse(cls, buffer: Buffer, position: int = 0) -> RecordBatch:
        """The batch that starts there. `CorruptBatch` unless all of it is in `buffer`."""
        batch = cls.__new__(cls)
        try:
            (
                batch.base_offset,
                length,
                batch.leader_epoch,
                magic,
                batch.crc,
                batch.attributes,
                last_offset_delta,
                batch.base_timestamp,
                batch.max_timestamp,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.record_count,
            ) = HEADER.unpack_from(buffer, position)
        except StructError:
            raise CorruptBatch("there are fewer bytes than the header of a batch has") from None
        if magic != MAGIC:
            raise CorruptBatch(f"a batch has magic {magic}, not {MAGIC}")
        end = position + LENGTH_END + length
        if length < _LEAST_LENGTH or end > len(buffer):
            raise CorruptBatch(f"a batch says it has {length} bytes, which cannot be")
        batch.next_offset = batch.base_offset + last_offset_delta + 1
        batch.data = memoryview(buffer)[position:end]
        return batch

    def stamp(self, base_offset: int, leader_epoch: int) -> None:
        """Write offset and leader epoch into the batch's own bytes. The CRC does not cover these fields."""
        _OFFSET_LENGTH_EPOCH.pack_into(self.data, 0, base_offset, len(self.data) - LENGTH_END, leader_epoch)
        self.next_offset += base_offset - self.base_offset
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch

    def stamp_append_time(self, timestamp_ms: int) -> None:
        """LogAppendTime: set one timestamp for all records. The CRC covers it and is recomputed."""
        data = self.data
        self.attributes |= TIMESTAMP_TYPE_BIT
        self.max_timestamp = timestamp_ms
        _INT64.pack_into(data, 35, timestamp_ms)
        _CRC_ATTRIBUTES.pack_into(data, 17, 0, self.attributes)
        self.crc = crc32c(data[CRC_START:])
        _CRC_ATTRIBUTES.pack_into(data, 17, self.crc, self.attributes)

    def crc_ok(self) -> bool:
        return crc32c(self.data[CRC_START:]) == self.crc

    def validation_error(self, max_size: int) -> ErrorCode:
        """The error with which a leader refuses this batch from a producer; NONE if the batch is valid.

        The records are not read: a wrong record only harms the consumers of the producer that wrote it.
        """
        if len(self.data) > max_size:
            return ErrorCode.MESSAGE_TOO_LARGE
        if crc32c(self.data[CRC_START:]) != self.crc:
            return ErrorCode.CORRUPT_MESSAGE
        attributes = self.attributes
        if (
            self.record_count <= 0
            or self.next_offset - self.base_offset != self.record_count
            or attributes & CONTROL_BIT
            or attributes & COMPRESSION_BITS > _CODEC_MAX
        ):
            return ErrorCode.INVALID_RECORD
        if self.producer_id < 0:
            return ErrorCode.INVALID_RECORD if attributes & TRANSACTIONAL_BIT else _VALID
        return _VALID if self.base_sequence >= 0 else ErrorCode.INVALID_RECORD

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def last_offset(self) -> int:
        return self.next_offset - 1

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(bool(self.attributes & TIMESTAMP_TYPE_BIT))

    @property
    def compression(self) -> Compression:
        codec = self.attributes & COMPRESSION_BITS
        try:
            return Compression(codec)
        except ValueError:
            raise CorruptBatch(f"a batch is compressed with codec {codec}, which is unknown") from None

    def __repr__(self) -> str:
        return (
            f"RecordBatch({self.base_offset}..{self.last_offset}, epoch {self.leader_epoch}, "
            f"{self.record_count} records, {len(self.data)} bytes)"
        )


def size_of(batches: Iterable[RecordBatch]) -> int:
    return sum(map(len, [batch.data for batch in batches]))


def split(buffer: Buffer) -> list[RecordBatch]:
    """The batches that follow each other in `buffer`.

    An incomplete batch at the end is left out.
    """
    view = memoryview(buffer)
    limit = len(view)
    batches: list[RecordBatch] = []
    position = 0
    if limit >= HEADER_SIZE and _OFFSET_LENGTH.unpack_from(view)[1] == limit - LENGTH_END:
        return [RecordBatch.parse(view)]
    while limit - position >= HEADER_SIZE:
        _, length = _OFFSET_LENGTH.unpack_from(view, position)
        if position + LENGTH_END + length > limit and view[position + 16] == MAGIC:
            break
        batch = RecordBatch.parse(view, position)
        batches.append(batch)
        position += len(batch.data)
    return batches
