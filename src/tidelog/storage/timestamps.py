"""Offsets by time (ListOffsets): the time index narrows the search to a batch, its records decide.

This is the one place where storage looks at records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.core.types import Millis, Offset
from tidelog.storage.segments import Segments
from tidelog.wire.batch import CorruptBatch, RecordBatch
from tidelog.wire.record_reader import read_records


class TimestampedOffset(NamedTuple):
    timestamp: Millis
    offset: Offset


def first_since(segments: Segments, timestamp: Millis, start: Offset) -> TimestampedOffset | None:
    """The first record from ``start`` on that is not older than ``timestamp``."""
    for segment in segments:
        if segment.max_timestamp >= timestamp or segment.corruption is not None:
            for batch in segment.since(timestamp, start):
                if batch.max_timestamp >= timestamp:
                    for found in _dated(batch):
                        if found.timestamp >= timestamp and found.offset >= start:
                            return found
    return None


def with_max_timestamp(segments: Segments, start: Offset) -> TimestampedOffset | None:
    """The first record from ``start`` on that has the largest timestamp there."""
    for segment in segments:
        if segment.corruption is not None:
            raise segment.corruption
    largest = max(segment.max_timestamp for segment in segments)
    found = first_since(segments, largest, start)
    if found is None:
        # The record lies below the start, was compacted, or has no timestamp. Look at all that is left.
        left = [
            batch.max_timestamp
            for segment in segments
            for batch in segment.since(-1, start)
            if batch.record_count
        ]
        found = first_since(segments, max(left), start) if left else None
    return found


def _dated(batch: RecordBatch) -> Iterator[TimestampedOffset]:
    try:
        for record in read_records(batch):
            yield TimestampedOffset(record.timestamp, record.offset)
    except CorruptBatch:
        # Whole as it was sent, but not what its producer said it was: the batch is all that can be dated.
        yield TimestampedOffset(batch.max_timestamp, batch.base_offset)
