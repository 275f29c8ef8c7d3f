"""Batches for the tests of storage, and what to look at in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.core.log_port import UNBOUNDED
from tidelog.core.types import LeaderEpoch
from tidelog.storage.log.file_log import FileLog
from tidelog.wire.batch import RecordBatch
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, build_batch, read_records


def batch(
    *values: str,
    timestamp: int = 1_000,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = -1,
    compression: Compression = Compression.NONE,
) -> RecordBatch:
    """A batch as a producer sends it, one record a value, one millisecond apart."""
    records = [Record(timestamp=timestamp + n, value=value.encode()) for n, value in enumerate(values)]
    content = build_batch(
        records,
        producer_id=producer,
        producer_epoch=epoch if producer >= 0 else -1,
        base_sequence=sequence,
        compression=compression,
    )
    return RecordBatch.parse(bytearray(content))


def copy_of(original: RecordBatch) -> RecordBatch:
    """What a follower gets: the same bytes in other memory."""
    return RecordBatch.parse(bytearray(original.data))


def append(log: FileLog, *batches: RecordBatch, epoch: int = 0) -> list[RecordBatch]:
    return [log.append_as_leader(one, LeaderEpoch(epoch)) for one in batches]


def values(batches: Iterable[RecordBatch]) -> list[tuple[int, str]]:
    """Offset and value of every record."""
    return [
        (record.offset, (record.value or b"").decode()) for one in batches for record in read_records(one)
    ]


def read_all(
    log: FileLog, start: int | None = None, end: int | None = None, max_bytes: int = UNBOUNDED
) -> list[RecordBatch]:
    """Read on until the end, as a consumer does."""
    position = log.start_offset if start is None else start
    limit = log.end_offset if end is None else end
    found: list[RecordBatch] = []
    while position < limit:
        batches: Sequence[RecordBatch] = log.read(position, limit, max_bytes)
        if not batches:
            break
        found += batches
        position = batches[-1].next_offset
    return found


def bytes_of(batches: Iterable[RecordBatch]) -> list[bytes]:
    return [bytes(one.data) for one in batches]
