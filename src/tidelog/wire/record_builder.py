"""Batches made here: by the tools, the tests, and a majority leader that opens its epoch.

Producers make their own; a broker makes only control batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from crc32c import crc32c

from tidelog.wire.batch import (
    CONTROL_BIT,
    CRC_START,
    HEADER,
    LENGTH_END,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    TimestampType,
)
from tidelog.wire.codec import encode
from tidelog.wire.compression import Compression, compress
from tidelog.wire.primitives import encode_varlong
from tidelog.wire.record_reader import Record
from tidelog.wire.schema import Int16, Int32, struct

_NULL = encode_varlong(-1)
_CRC = Struct(">I")
_CONTROL_KEY = Struct(">hh")
_LEADER_CHANGE = 2


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
) -> bytes:
    """One batch. The records take the offsets from `base_offset` on, whatever theirs say.

    With LOG_APPEND_TIME the batch has one timestamp for all its records, the largest.
    """
    if not records:
        raise ValueError("a batch has at least one record")
    base_timestamp = records[0].timestamp
    max_timestamp = max(record.timestamp for record in records)
    body = b"".join(_encode_record(record, delta, base_timestamp) for delta, record in enumerate(records))
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
            len(records) - 1,
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
    """A control batch that says who leads from here on; its offset is stamped when it is appended.

    The length of logs decides an election here, not votes that are cast, so all voters count as granting.
    """
    members = [Voter(voter_id=voter) for voter in voters]
    message = LeaderChangeMessage(leader_id=leader_id, voters=members, granting_voters=members)
    record = Record(
        timestamp=timestamp,
        key=_CONTROL_KEY.pack(0, _LEADER_CHANGE),
        value=encode(message, version=0, flexible=True),
    )
    return build_batch([record], leader_epoch=epoch, control=True)
