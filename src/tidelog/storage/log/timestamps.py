"""Find offsets by timestamp (ListOffsets): the time index narrows the search to a batch, its records decide.

A header may claim a newer record than the batch holds; then the search continues with the next batch. The
search runs in steps. Each step starts again from the offset reached, because the log may have been truncated
at either end in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from tidelog.core.types import Millis, Offset
from tidelog.storage.background import Steps, StepsAndJobs
from tidelog.storage.log.keyed_records import content_in_steps, records_by_part
from tidelog.storage.log.segment_list import Segments
from tidelog.wire.batch import CorruptBatch, RecordBatch

_HEADERS_AT_ONCE = 100


class TimestampedOffset(NamedTuple):
    timestamp: Millis
    offset: Offset


TimestampSearch = StepsAndJobs[TimestampedOffset | None]


def first_since(segments: Segments, timestamp: Millis, start: Offset) -> TimestampSearch:
    """The first record from ``start`` on with ``timestamp`` or a later one."""
    position = start
    while (batch := next(_batches(segments, timestamp, position), None)) is not None:
        found = yield from _first_of(batch, timestamp, start)
        if found is not None:
            return found
        position = batch.next_offset
    return None


def with_max_timestamp(segments: Segments, start: Offset) -> TimestampSearch:
    """The first record from ``start`` on that has the largest timestamp there."""
    for segment in segments:
        if segment.corruption is not None:
            raise segment.corruption
    largest = max((segment.max_timestamp for segment in segments), default=None)
    found = None if largest is None else (yield from first_since(segments, largest, start))
    if found is None:
        # The record is below the start, was compacted, or has no timestamp. Search the rest.
        largest = yield from _largest_timestamp(segments, start)
        found = None if largest is None else (yield from first_since(segments, largest, start))
    return found


def _largest_timestamp(segments: Segments, start: Offset) -> Steps[Millis | None]:
    """The largest timestamp in the headers of batches with records."""
    largest = None
    while batches := list(islice(_batches(segments, -1, start), _HEADERS_AT_ONCE)):
        for batch in batches:
            if batch.record_count and (largest is None or batch.max_timestamp > largest):
                largest = batch.max_timestamp
        start = batches[-1].next_offset
        yield
    return largest


def _batches(segments: Segments, timestamp: Millis, start: Offset) -> Iterator[RecordBatch]:
    """The batches from ``start`` on whose headers are not older. The caller must consume it before the log
    can change."""
    for segment in segments:
        if segment.max_timestamp >= timestamp or segment.corruption is not None:
            for batch in segment.since(timestamp, start):
                if batch.max_timestamp >= timestamp and batch.next_offset > start:
                    yield batch


def _first_of(batch: RecordBatch, timestamp: Millis, start: Offset) -> TimestampSearch:
    append_time = batch.max_timestamp if batch.timestamp_type else None
    try:
        content = yield from content_in_steps(batch)
        for records in records_by_part(batch, content):
            for offset, _, _, delta, *_ in records:
                at = batch.base_timestamp + delta if append_time is None else append_time
                if at >= timestamp and offset >= start:
                    return TimestampedOffset(at, offset)
            yield None
    except CorruptBatch:
        # The CRC is right but the producer sent invalid records: use the timestamp of the batch.
        if batch.base_offset >= start:
            return TimestampedOffset(batch.max_timestamp, batch.base_offset)
    return None
