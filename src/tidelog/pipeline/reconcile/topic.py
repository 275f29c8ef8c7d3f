"""The topic's side, put together: what each offset of a partition is.

Pieces of a log come in order. A transaction that is open at the end of a piece is decided by the first marker
of its producer in a later one; without any, it is still open, and readers of committed records stop before
it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tidelog.pipeline.reconcile.bits import Gathering, OffsetSet
from tidelog.pipeline.reconcile.log_facts import PieceFacts, move
from tidelog.pipeline.segments.rows import SegmentFile

UNKNOWN_TIME: Final = -1
DAY_MS: Final = 86_400_000


@dataclass(slots=True)
class PartitionLog:
    """Offsets from `first` to `end` (exclusive) were looked at; below `log_start` the topic has nothing.
    `stable_end` is the last stable offset."""

    partition: int
    first: int
    log_start: int
    end: int
    stable_end: int
    records: OffsetSet = field(default_factory=OffsetSet)
    aborted: OffsetSet = field(default_factory=OffsetSet)
    markers: OffsetSet = field(default_factory=OffsetSet)
    unreadable: OffsetSet = field(default_factory=OffsetSet)
    times: list[tuple[int, int]] = field(default_factory=list)
    """Offsets and the time of their batch, wherever it is another step of `TIME_STEP_MS`."""
    newest_ms: int = UNKNOWN_TIME
    reached: list[int | None] = field(default_factory=list)
    """Of each time that was asked for: the first offset at or behind it."""
    problems: list[str] = field(default_factory=list)
    truncated_end: int | None = None
    """Another replica holds an older log up to here."""
    segments: tuple[SegmentFile, ...] = ()
    """Of a log in files: the copy that counts."""

    def time_of(self, offset: int) -> int:
        """Of the batch at the offset, in ms since 1970."""
        at = bisect_right(self.times, (offset, 1 << 62)) - 1
        return self.times[at][1] if at >= 0 and offset < self.end else UNKNOWN_TIME

    def days(self) -> list[tuple[int, int]]:
        """Offsets from which on it is another day (since 1970; -1: not known)."""
        found = [(0, UNKNOWN_TIME)]
        for start, time in [*self.times, (self.end, UNKNOWN_TIME)]:
            day = UNKNOWN_TIME if time < 0 else time // DAY_MS
            if found[-1][1] != day:
                found.append((start, day))
        return found


@dataclass(slots=True)
class TopicLog:
    """`topic_id` is what Kafka gave the topic when it was created; None: not known."""

    topic: str
    source: str
    partitions: dict[int, PartitionLog]
    topic_id: str | None = None


def put_together(
    partition: int, log_start: int, end: int, first: int, pieces: Sequence[PieceFacts]
) -> PartitionLog:
    """One partition of all its pieces, in the order of offsets."""
    log = PartitionLog(partition, first, log_start, end, end)
    for piece in pieces:
        log.records.unite(piece.records)
        log.aborted.unite(piece.aborted)
        log.markers.unite(piece.markers)
        log.unreadable.unite(piece.unreadable)
        log.problems += piece.problems
        log.times += piece.times
        log.newest_ms = max(log.newest_ms, piece.newest_ms)
    log.reached = [
        next((r for r in found if r is not None), None)
        for found in zip(*(p.reached for p in pieces), strict=True)
    ]
    records, aborted = Gathering(log.records), Gathering(log.aborted)
    for number, piece in enumerate(pieces):
        for producer, ranges in piece.open.items():
            later = (p.first_markers[producer] for p in pieces[number + 1 :] if producer in p.first_markers)
            aborts = next(later, None)
            if aborts is None:
                log.stable_end = min(log.stable_end, ranges[0][0])
            for start, stop in ranges if aborts else ():
                move(records, aborted, start, stop)
    log.records, log.aborted = records.finished(), aborted.finished()
    return log
