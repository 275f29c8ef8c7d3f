"""The records of a batch as compaction sees them: a key, whether there is a value, and the bytes as they are.

Reading every field of every record (``wire.records``) takes several times as long, and compaction
copies what it keeps. Nothing here is trusted: bytes that cannot be records raise ``CorruptBatch``.

Ten kilobytes can inflate to a hundred megabytes and millions of records. So nothing is inflated beyond
``INFLATED_MAX``, and a batch with more than ``RECORDS_MAX`` records is not read at all: a compacted topic
refuses it. Within these bounds the event loop inflates small batches itself and large ones in a thread, and
reads a few records at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

from tidelog.core.log_port import Batch, StorageFailure
from tidelog.core.types import Offset
from tidelog.storage.background import Steps, StepsAndJobs, in_thread
from tidelog.wire.batch import HEADER_SIZE, CorruptBatch, RecordBatch
from tidelog.wire.compression import Compression, TooMuchInflated, decompress
from tidelog.wire.errors import ProtocolError
from tidelog.wire.primitives import encode_varlong, read_varlong
from tidelog.wire.records import RECORD_SIZE_MIN, records_from

RECORDS_MAX = 250_000
INFLATED_MAX = 64 << 20
KEYLESS_MAX = 1_000
"""At most this many records without a key are reported."""

_AT_ONCE = 500
"""Records that can be read in a fraction of a millisecond."""
_INFLATED_HERE_MAX = 128 << 10
"""Bytes that can be inflated in a fraction of a millisecond."""

KeyedRecord = tuple[int, bytes | None, bool, int, int, int]
"""Offset, key, whether there is a value, timestamp as a difference to the base timestamp of the batch, where
the record begins (with its length) and where it ends. A plain tuple: there are very many of them."""


class BatchTooLarge(CorruptBatch):
    """Not necessarily corrupt, but beyond the limits of this module."""


def rest_of(batch: Batch, offset: Offset) -> RecordBatch:
    """``Log.rest_of``: the records of a batch from ``offset`` on. ``StorageFailure`` if they are corrupt."""
    assert isinstance(batch, RecordBatch)
    try:
        return records_from(batch, offset)
    except CorruptBatch as error:
        raise StorageFailure(str(error)) from None


def content_of(batch: RecordBatch, limit: int = INFLATED_MAX) -> bytes:
    """The records of a batch, inflated."""
    count = batch.record_count
    if count > RECORDS_MAX:
        raise BatchTooLarge(f"a batch of {count} records; up to {RECORDS_MAX} are looked into")
    try:
        content = decompress(batch.data[HEADER_SIZE:], batch.compression, limit=limit)
    except TooMuchInflated as error:
        raise BatchTooLarge(str(error)) from None
    except ProtocolError as error:
        raise CorruptBatch(str(error)) from None
    if not 0 <= count * RECORD_SIZE_MIN <= len(content):
        raise CorruptBatch(f"{count} records do not fit {len(content)} bytes")
    return content


def content_in_steps(batch: RecordBatch) -> StepsAndJobs[bytes]:
    """``content_of`` in steps, for the event loop."""
    if batch.compression is Compression.NONE or batch.record_count > RECORDS_MAX:
        return content_of(batch)
    try:
        return content_of(batch, _INFLATED_HERE_MAX)
    except BatchTooLarge:
        return (yield from in_thread(partial(content_of, batch)))


def keyed_records(batch: RecordBatch, content: bytes) -> list[KeyedRecord]:
    """The records that ``content``, the inflated part of ``batch``, consists of."""
    return list(chain.from_iterable(records_by_part(batch, content)))


def records_by_part(batch: RecordBatch, content: bytes) -> Iterator[list[KeyedRecord]]:
    """``keyed_records``, a few at a time."""
    position = 0
    for first in range(0, batch.record_count, _AT_ONCE):
        count = min(batch.record_count - first, _AT_ONCE)
        try:
            records = _records(batch.base_offset, count, content, position)
        except IndexError:
            raise CorruptBatch("a record is cut off") from None
        except CorruptBatch:
            raise
        except ProtocolError as error:
            raise CorruptBatch(str(error)) from None
        position = records[-1][-1]
        yield records
    if position != len(content):
        raise CorruptBatch(f"{len(content) - position} bytes follow the last record of a batch")


def _records(base_offset: int, count: int, data: bytes, position: int) -> list[KeyedRecord]:
    """``count`` records from ``position`` on."""
    records: list[KeyedRecord] = []
    size = len(data)
    for _ in range(count):
        # Most of these numbers have one byte: avoid the call.
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
    return records


def keyless_records(batch: RecordBatch) -> StepsAndJobs[list[int]]:
    """The records without a key, which a compacted topic refuses, by index in the batch; at most
    ``KEYLESS_MAX``. ``CorruptBatch`` if the records cannot be read."""
    content = yield from content_in_steps(batch)
    return (yield from _keyless(batch, content))


def _keyless(batch: RecordBatch, content: bytes) -> Steps[list[int]]:
    found: list[int] = []
    before = 0
    for records in records_by_part(batch, content):
        found += [before + place for place, (_, key, *_) in enumerate(records) if key is None]
        if len(found) >= KEYLESS_MAX:
            return found[:KEYLESS_MAX]
        before += len(records)
        yield
    return found


def shifted(content: bytes, record: KeyedRecord, by_ms: int) -> bytes:
    """The bytes of a record after the base timestamp of its batch was lowered by ``by_ms``."""
    _, _, _, timestamp_delta, start, end = record
    _, position = read_varlong(content, start)
    _, behind = read_varlong(content, position + 1)
    body = content[position : position + 1] + encode_varlong(timestamp_delta + by_ms) + content[behind:end]
    return encode_varlong(len(body)) + body
