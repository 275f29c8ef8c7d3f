"""Which records of a log have been kept long enough: by age, by size, and never beyond the high watermark.

Whole segments go, the oldest first. The active one goes only if everything goes: then it is rolled first.
The result is an offset; advancing the log's start to it is what deletes, because the core must follow.
"""

from __future__ import annotations

import os

from tidelog.core.types import Millis, Offset
from tidelog.storage.log.file_log import FileLog
from tidelog.storage.log.segment import Segment


def retained_from(log: FileLog, now_ms: Millis, high_watermark: Offset) -> Offset:
    """Where the log must start so that only what its topic's settings keep is left."""
    start = log.start_offset
    if not log.config.deletes:
        return start
    excess = _excess(log)
    for segment, end in log.segments.spans():
        if end > high_watermark or not _may_go(log, segment, excess, now_ms):
            return start
        excess -= segment.size
        start = max(start, end)
    active = log.segments.active
    if active.size and log.end_offset <= high_watermark and _may_go(log, active, excess, now_ms):
        log.roll()
        start = log.end_offset
    return start


def _excess(log: FileLog) -> int:
    """By how many bytes the log is too large."""
    allowed = log.config.retention_bytes
    return log.size_bytes - allowed if allowed >= 0 else -1


def _may_go(log: FileLog, segment: Segment, excess: int, now_ms: Millis) -> bool:
    """The segment is too old, or the log is large enough without it."""
    if 0 <= segment.size <= excess:
        return True
    allowed = log.config.retention_ms
    return allowed >= 0 and now_ms - newest(segment) > allowed


def newest(segment: Segment) -> Millis:
    """The time of its newest record; where that is not known, of the last write."""
    if segment.max_timestamp >= 0 and segment.corruption is None:
        return segment.max_timestamp
    return os.stat(segment.path).st_mtime_ns // 1_000_000
