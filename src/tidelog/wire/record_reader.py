"""Records out of batches, for those who look inside: the audit, the tools, the tests. Never the broker.

A record is, behind its own length: attributes i8 (unused), timestamp and offset as differences to those of
the batch, key, value, headers; all integers are zigzag varints, and -1 as a length stands for null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidelog.wire.batch import HEADER_SIZE, CorruptBatch, RecordBatch
from tidelog.wire.compression import INFLATED_MAX, decompress
from tidelog.wire.errors import ProtocolError
from tidelog.wire.primitives import read_varlong

Header = tuple[str, bytes | None]

# Length, attributes, two differences, two lengths and a count, one byte each.
RECORD_SIZE_MIN = 7


@dataclass(slots=True)
class Record:
    offset: int = 0
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: list[Header] = field(default_factory=list)


def read_records(batch: RecordBatch, *, limit: int = INFLATED_MAX) -> Iterator[Record]:
    """The records of a batch in order; `CorruptBatch` at the first byte that cannot be.

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
        # Nearly always one byte, so the call is spared.
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
