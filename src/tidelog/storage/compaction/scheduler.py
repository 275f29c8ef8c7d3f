"""Choose the next log to compact: the dirtiest, one at a time.

Segments sealed since the last compaction of a log are dirty. Their share of all segments that would be
rewritten decides: compacting a large log for one small segment would be mostly copying.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from threading import Event, Lock
from typing import NamedTuple

from tidelog.core.types import Millis, Offset, TopicPartition
from tidelog.settings.kinds import LONG_MAX
from tidelog.storage.background import Job
from tidelog.storage.compaction.compactor import Abandoned, Compaction, SealedSegment
from tidelog.storage.log.file_log import FileLog
from tidelog.storage.log.retention import newest

DEDUPE_BYTES = 128 << 20
UNLIMITED = 0
_NAP_SECONDS_MIN = 0.01


class Cleanable(NamedTuple):
    """The part of a log that can be compacted now."""

    sources: list[SealedSegment]
    first_dirty: Offset
    dirty_share: float


def cleanable(log: FileLog, high_watermark: Offset, now_ms: Millis) -> Cleanable | None:
    """None if compaction is not due. Takes segments from the beginning of the log while they are sealed,
    synced, fully committed, and older than ``min.compaction.lag.ms``."""
    config = log.config
    if not config.compacts or log.failure:
        return None
    first_dirty = max(log.cleaned_to, log.start_offset)
    limit = min(high_watermark, log.recovery_point)
    sources, clean_bytes, dirty_bytes = [], 0, 0
    for segment, end in log.segments.spans():
        if end > limit or segment.corruption is not None:
            break
        if config.min_compaction_lag_ms and newest(segment) > now_ms - config.min_compaction_lag_ms:
            break
        sources.append(SealedSegment(segment, end))
        if end > first_dirty:
            dirty_bytes += segment.size
        else:
            clean_bytes += segment.size
    if not dirty_bytes:
        return None
    share = dirty_bytes / (clean_bytes + dirty_bytes)
    enough = share > config.min_cleanable_dirty_ratio
    if not enough and not _has_waited_too_long(log, sources, first_dirty, now_ms):
        return None
    # The last batch of each producer must stay, and a log that no replica uses has not loaded its producers.
    return Cleanable(sources, first_dirty, share) if log.last_offsets_of_producers() is not None else None


def _has_waited_too_long(
    log: FileLog, sources: list[SealedSegment], first_dirty: Offset, now_ms: Millis
) -> bool:
    allowed = log.config.max_compaction_lag_ms
    if allowed == LONG_MAX:
        return False
    oldest = next(source.segment for source in sources if source.end_offset > first_dirty)
    header = oldest.header_at(0)
    return header is not None and 0 <= header.max_timestamp < now_ms - allowed


class CompactionScheduler:
    """Runs one compaction at a time, within limits on memory and speed."""

    def __init__(
        self,
        logs: Mapping[TopicPartition, FileLog],
        write_checkpoints: Job,
        report: Callable[[str], None],
        *,
        dedupe_bytes: int = DEDUPE_BYTES,
        bytes_per_second: float = UNLIMITED,
    ) -> None:
        self.dedupe_bytes = dedupe_bytes
        self.last = ""
        """Message for the broker's log about the last compaction."""
        self._logs = logs
        self._write_checkpoints = write_checkpoints
        self._report = report
        self._bytes_per_second = bytes_per_second
        self._hopeless: set[FileLog] = set()
        self._debt_seconds = 0.0
        self._read_at = 0.0
        self._working = Lock()
        self._stopped = Event()

    def next_compaction(
        self, now_ms: Millis, high_watermarks: Mapping[TopicPartition, Offset]
    ) -> Iterator[Job] | None:
        """The compaction that is most due, or None. The event loop runs each yielded job in a thread, then
        resumes. The previous compaction must have ended."""
        due: list[tuple[float, FileLog, Cleanable]] = []
        for tp, log in self._logs.items():
            if log in self._hopeless or tp not in high_watermarks:
                continue
            try:
                found = cleanable(log, high_watermarks[tp], now_ms)
            except OSError as error:
                self._report(str(error))
                continue
            if found is not None:
                due.append((found.dirty_share, log, found))
        if not due or self._stopped.is_set():
            return None
        _, log, found = max(due, key=lambda candidate: candidate[0])
        return self._steps(Compaction(log, found.sources, found.first_dirty, now_ms, self))

    def _steps(self, compaction: Compaction) -> Iterator[Job]:
        yield from compaction.steps()
        before, after = compaction.bytes_before, compaction.bytes_after
        self.last = f"compacted {compaction.log.tp}: {before} bytes became {after}" if before else ""
        if compaction.failure:
            self._report(f"cannot compact {compaction.log.tp}: {compaction.failure}")
        if compaction.hopeless:
            self._hopeless.add(compaction.log)

    def stop(self) -> None:
        """Stop compacting. Waits, briefly, for a job that a thread is running."""
        self._stopped.set()
        with self._working:
            pass

    # ------------------------------------------------------------ CompactionHost

    def is_there(self, log: FileLog) -> bool:
        return self._logs.get(log.tp) is log and not self._stopped.is_set()

    def run(self, work: Callable[[], None]) -> None:
        with self._working:
            if not self._stopped.is_set():
                try:
                    work()
                except Abandoned:
                    return

    def write_checkpoints(self) -> None:
        self._write_checkpoints()

    def read(self, size: int) -> None:
        """Sleep to keep the average reading speed below the limit."""
        if self._stopped.is_set():
            raise Abandoned
        if self._bytes_per_second:
            now = time.monotonic()
            self._debt_seconds = max(self._debt_seconds - (now - self._read_at), 0.0)
            self._debt_seconds += size / self._bytes_per_second
            self._read_at = now
            if self._debt_seconds > _NAP_SECONDS_MIN and self._stopped.wait(self._debt_seconds):
                raise Abandoned
