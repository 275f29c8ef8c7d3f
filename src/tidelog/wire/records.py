"""Read and write the records of a batch.

A record is, behind its own length: attributes i8 (unused), timestamp and offset as differences to those of
the batch, key, value, headers; all integers are zigzag varints, and -1 as a length means null.

A broker stores batches without reading their records (`batch`). It uses this module only for the records of
`__consumer_offsets` and for the control record with which a leader opens its epoch. Audit, tools and tests
read and write records of any topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct

from crc32c import crc32c

from tidelog.wire.batch import (
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
    TimestampType,
)
from tidelog.wire.codec import encode
from tidelog.wire.compression import INFLATED_MAX, Compression, compress, decompress
from tidelog.wire.errors import ProtocolError
from tidelog.wire.primitives import encode_varlong, read_varlong
from tidelog.wire.schema import Int16, Int32, struct

Header = tuple[str, bytes | None]

# Length, attributes, two differences, two lengths and a count, one byte each.
RECORD_SIZE_MIN = 7

SEQUENCES = 1 << 31
"""Sequence numbers start again at 0 after the largest positive int32."""

_NULL = encode_varlong(-1)
_CRC = Struct(">I")
_CONTROL_KEY = Struct(">hh")
_LEADER_CHANGE = 2


@dataclass(slots=True)
class Record:
    offset: int = 0
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: list[Header] = field(default_factory=list)


# ---------------------------------------------------------------- reading


def read_records(batch: RecordBatch, *, limit: int = INFLATED_MAX) -> Iterator[Record]:
    """The records of a batch in order. Raises `CorruptBatch` at the first invalid byte.

    `limit` bounds what a compressed batch may inflate to. The CRC is not verified here.
    """
    try:
        data = decompress(batch.data[HEADER_SIZE:], batch.compression, limit=limit)
        if not 0 <= batch.record_count * RECORD_SIZE_MIN <= len(data):
            raise CorruptBatch(f"{batch.record_count} records do not fit {len(data)} bytes")
        append_time = batch.max_timestamp if batch.timestamp_type else None
        position = 0
        for _ in range(batch.record_count):
            length, position = read_varlong(data, position)
            end = position + length
            if not position < end <= len(data):
                raise CorruptBatch("a record reaches beyond its batch")
            yield _read_record(data, position, end, batch, append_time)
            position = end
        if position != len(data):
            raise CorruptBatch(f"{len(data) - position} bytes follow the last record of a batch")
    except CorruptBatch:
        raise
    except IndexError:
        raise CorruptBatch("a record is cut off") from None
    except UnicodeDecodeError:
        raise CorruptBatch("the name of a record's header is not UTF-8") from None
    except ProtocolError as error:
        raise CorruptBatch(str(error)) from None


def _read_record(data: bytes, position: int, end: int, batch: RecordBatch, append_time: int | None) -> Record:
    record = Record.__new__(Record)
    timestamp_delta, position = read_varlong(data, position + 1)
    offset_delta, position = read_varlong(data, position)
    record.timestamp = batch.base_timestamp + timestamp_delta if append_time is None else append_time
    record.offset = batch.base_offset + offset_delta
    record.key, position = _read_bytes(data, position, end)
    record.value, position = _read_bytes(data, position, end)
    record.headers = []
    if position == end - 1 and data[position] == 0:
        return record
    count, position = read_varlong(data, position)
    if not 0 <= count <= end - position:
        raise CorruptBatch("a record has an impossible number of headers")
    for _ in range(count):
        name, position = _read_bytes(data, position, end)
        if name is None:
            raise CorruptBatch("a record's header has no name")
        content, position = _read_bytes(data, position, end)
        record.headers.append((name.decode(), content))
    if position != end:
        raise CorruptBatch("a record is not as long as it says")
    return record


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length = data[position]
    position += 1
    if length < 0x80:
        # Nearly always one byte: avoid the call.
        if length & 1:
            return None, position
        behind = position + (length >> 1)
    else:
        length, position = read_varlong(data, position - 1)
        if length < 0:
            return None, position
        behind = position + length
    if behind > end:
        raise CorruptBatch("a record's key, value or header reaches beyond the record")
    return data[position:behind], behind


# ---------------------------------------------------------------- writing


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    next_offset: int | None = None,
) -> bytes:
    """One batch. The records get offsets from `base_offset` on; their own offsets are ignored. With
    `next_offset`, where the batch ends, they keep their own offsets, and may be fewer, or none.

    With LOG_APPEND_TIME the batch has one timestamp for all its records, the largest.
    """
    if not records and next_offset is None:
        raise ValueError("a batch has at least one record")
    base_timestamp = records[0].timestamp if records else -1
    max_timestamp = max((record.timestamp for record in records), default=-1)
    deltas: Iterable[int] = range(len(records))
    if next_offset is not None:
        deltas = (record.offset - base_offset for record in records)
    body = b"".join(
        _encode_record(record, delta, base_timestamp) for record, delta in zip(records, deltas, strict=True)
    )
    attributes = (
        compression
        | (timestamp_type and TIMESTAMP_TYPE_BIT)
        | (transactional and TRANSACTIONAL_BIT)
        | (control and CONTROL_BIT)
    )
    data = compress(body, compression)
    batch = bytearray(
        HEADER.pack(
            base_offset,
            HEADER.size + len(data) - LENGTH_END,
            leader_epoch,
            MAGIC,
            0,
            attributes,
            (base_offset + len(records) if next_offset is None else next_offset) - base_offset - 1,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
        )
    )
    batch += data
    _CRC.pack_into(batch, 17, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


def records_from(batch: RecordBatch, offset: int) -> RecordBatch:
    """The records of a batch from `offset` on, as a batch of their own."""
    sequence = batch.base_sequence
    content = build_batch(
        [record for record in read_records(batch) if record.offset >= offset],
        base_offset=offset,
        leader_epoch=batch.leader_epoch,
        compression=batch.compression,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=sequence if sequence < 0 else (sequence + offset - batch.base_offset) % SEQUENCES,
        transactional=batch.is_transactional,
        control=batch.is_control,
        timestamp_type=batch.timestamp_type,
        next_offset=batch.next_offset,
    )
    return RecordBatch.parse(bytearray(content))


def _encode_record(record: Record, offset_delta: int, base_timestamp: int) -> bytes:
    parts = [
        b"\x00",
        encode_varlong(record.timestamp - base_timestamp),
        encode_varlong(offset_delta),
        _encode_bytes(record.key),
        _encode_bytes(record.value),
        encode_varlong(len(record.headers)),
    ]
    for name, content in record.headers:
        parts.append(_encode_bytes(name.encode()))
        parts.append(_encode_bytes(content))
    body = b"".join(parts)
    return encode_varlong(len(body)) + body


def _encode_bytes(data: bytes | None) -> bytes:
    return _NULL if data is None else encode_varlong(len(data)) + data


# ---------------------------------------------------------------- control records


@struct
class Voter:
    voter_id: Int32


@struct
class LeaderChangeMessage:
    """The value of the record with which a KRaft leader opens its epoch (KIP-595)."""

    version: Int16 = 0
    leader_id: Int32
    voters: list[Voter]
    granting_voters: list[Voter]


def leader_change_batch(epoch: int, leader_id: int, voters: Sequence[int], timestamp: int) -> bytes:
    """The control batch that names the leader of a new epoch; its offset is stamped at the append.

    The length of logs decides an election, without votes, so all voters count as granting.
    """
    members = [Voter(voter_id=voter) for voter in voters]
    message = LeaderChangeMessage(leader_id=leader_id, voters=members, granting_voters=members)
    record = Record(
        timestamp=timestamp,
        key=_CONTROL_KEY.pack(0, _LEADER_CHANGE),
        value=encode(message, version=0, flexible=True),
    )
    return build_batch([record], leader_epoch=epoch, control=True)
