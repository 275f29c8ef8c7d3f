"""The records of a batch as compaction sees them: a key, whether there is a value, and the bytes as they are.

Reading every field of every record (``wire.record_reader``) takes several times as long, and compaction
copies what it keeps. Nothing here is trusted: bytes that cannot be records raise ``CorruptBatch``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.wire.batch import HEADER_SIZE, CorruptBatch, RecordBatch
from tidelog.wire.compression import decompress
from tidelog.wire.errors import ProtocolError
from tidelog.wire.primitives import encode_varlong, read_varlong


class KeyedRecord(NamedTuple):
    offset: int
    key: bytes | None
    has_value: bool
    timestamp_delta: int
    """From the base timestamp of the batch."""
    start: int
    """Where the record begins, with its length,"""
    end: int
    """and where it ends."""


def content_of(batch: RecordBatch) -> bytes:
    """The records of a batch, inflated."""
    try:
        return decompress(batch.data[HEADER_SIZE:], batch.compression)
    except ProtocolError as error:
        raise CorruptBatch(str(error)) from None


def keyed_records(batch: RecordBatch, content: bytes) -> Iterator[KeyedRecord]:
    """The records that ``content``, the inflated part of ``batch``, consists of."""
    try:
        yield from _records(batch, content)
    except IndexError:
        raise CorruptBatch("a record is cut off") from None
    except CorruptBatch:
        raise
    except ProtocolError as error:
        raise CorruptBatch(str(error)) from None


def _records(batch: RecordBatch, data: bytes) -> Iterator[KeyedRecord]:
    base_offset, size = batch.base_offset, len(data)
    make = KeyedRecord._make
    position = 0
    for _ in range(batch.record_count):
        # Most of these numbers have one byte: then the call is spared.
        start = position
        length = data[position]
        if length < 0x80:
            length, position = (length >> 1) ^ -(length & 1), position + 1
        else:
            length, position = read_varlong(data, position)
        end = position + length
        if length < 6 or end > size:
            raise CorruptBatch("a record reaches beyond its batch")
        timestamp = data[position + 1]
        if timestamp < 0x80:
            timestamp, position = (timestamp >> 1) ^ -(timestamp & 1), position + 2
        else:
            timestamp, position = read_varlong(data, position + 1)
        delta = data[position]
        if delta < 0x80:
            delta, position = (delta >> 1) ^ -(delta & 1), position + 1
        else:
            delta, position = read_varlong(data, position)
        length = data[position]
        if length < 0x80:
            length, position = (length >> 1) ^ -(length & 1), position + 1
        else:
            length, position = read_varlong(data, position)
        key = None
        if length >= 0:
            key = data[position : position + length]
            position += length
        if position >= end:
            raise CorruptBatch("a record's key reaches beyond the record")
        # An odd first byte is a negative number, and that is no value.
        yield make((base_offset + delta, key, not data[position] & 1, timestamp, start, end))
        position = end
    if position != size:
        raise CorruptBatch(f"{size - position} bytes follow the last record of a batch")


def has_only_keyed_records(batch: RecordBatch) -> bool:
    """What a compacted topic demands of a producer. ``CorruptBatch`` if that cannot be told."""
    return all(record.key is not None for record in keyed_records(batch, content_of(batch)))


def shifted(content: bytes, record: KeyedRecord, by_ms: int) -> bytes:
    """The bytes of a record whose batch has a base timestamp that is less by ``by_ms``."""
    _, position = read_varlong(content, record.start)
    _, behind = read_varlong(content, position + 1)
    delta = encode_varlong(record.timestamp_delta + by_ms)
    body = content[position : position + 1] + delta + content[behind : record.end]
    return encode_varlong(len(body)) + body
