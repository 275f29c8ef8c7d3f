"""Retention: which segments of a log are too old or too many, never beyond the high watermark.

Whole segments are deleted, the oldest first. The active segment is deleted only with all others, after a
roll. The result is an offset. The caller deletes by advancing the log's start to it through the core, which
must know the new start.
"""

from __future__ import annotations

import os

from tidelog.core.types import Millis, Offset
from tidelog.storage.log.file_log import FileLog
from tidelog.storage.log.segment import Segment


def retained_from(log: FileLog, now_ms: Millis, high_watermark: Offset) -> Offset:
    """The offset at which the log must start according to the topic's settings."""
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
    """How many bytes the log exceeds its size limit."""
    allowed = log.config.retention_bytes
    return log.size_bytes - allowed if allowed >= 0 else -1


def _may_go(log: FileLog, segment: Segment, excess: int, now_ms: Millis) -> bool:
    """Whether the segment is too old, or the log reaches its size limit without it."""
    if 0 <= segment.size <= excess:
        return True
    allowed = log.config.retention_ms
    return allowed >= 0 and now_ms - newest(segment) > allowed


def newest(segment: Segment) -> Millis:
    """The time of its newest record; without timestamps, the time of the last write."""
    if segment.max_timestamp >= 0 and segment.corruption is None:
        return segment.max_timestamp
    return os.stat(segment.path).st_mtime_ns // 1_000_000
