"""The records of a batch as compaction sees them: a key, whether there is a value, and the bytes as they are.

Reading every field of every record (``wire.record_reader``) takes several times as long, and compaction
copies what it keeps. Nothing here is trusted: bytes that cannot be records raise ``CorruptBatch``.
"""

from __future__ import annotations

from tidelog.wire.batch import HEADER_SIZE, CorruptBatch, RecordBatch
from tidelog.wire.compression import decompress
from tidelog.wire.errors import ProtocolError
from tidelog.wire.primitives import encode_varlong, read_varlong

KeyedRecord = tuple[int, bytes | None, bool, int, int, int]
"""Offset, key, whether there is a value, timestamp as a difference to the base timestamp of the batch, where
the record begins (with its length) and where it ends. A plain tuple: there are very many of them."""


def content_of(batch: RecordBatch) -> bytes:
    """The records of a batch, inflated."""
    try:
        return decompress(batch.data[HEADER_SIZE:], batch.compression)
    except ProtocolError as error:
        raise CorruptBatch(str(error)) from None


def keyed_records(batch: RecordBatch, content: bytes) -> list[KeyedRecord]:
    """The records that ``content``, the inflated part of ``batch``, consists of."""
    try:
        return _records(batch.base_offset, batch.record_count, content)
    except IndexError:
        raise CorruptBatch("a record is cut off") from None
    except CorruptBatch:
        raise
    except ProtocolError as error:
        raise CorruptBatch(str(error)) from None


def _records(base_offset: int, count: int, data: bytes) -> list[KeyedRecord]:
    records: list[KeyedRecord] = []
    size = len(data)
    position = 0
    for _ in range(count):
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
        records.append((base_offset + delta, key, not data[position] & 1, timestamp, start, end))
        position = end
    if position != size:
        raise CorruptBatch(f"{size - position} bytes follow the last record of a batch")
    return records


def keyless_records(batch: RecordBatch) -> list[int]:
    """What a compacted topic refuses: the records without a key, by their places in the batch.
    ``CorruptBatch`` if that cannot be told."""
    records = keyed_records(batch, content_of(batch))
    return [place for place, (_, key, *_) in enumerate(records) if key is None]


def shifted(content: bytes, record: KeyedRecord, by_ms: int) -> bytes:
    """The bytes of a record whose batch has a base timestamp that is less by ``by_ms``."""
    _, _, _, timestamp_delta, start, end = record
    _, position = read_varlong(content, start)
    _, behind = read_varlong(content, position + 1)
    body = content[position : position + 1] + encode_varlong(timestamp_delta + by_ms) + content[behind:end]
    return encode_varlong(len(body)) + body
