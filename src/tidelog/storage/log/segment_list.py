"""The segments of one log in order: find the one of an offset, drop segments at either end.

There is always at least one. The last is the active segment, the only one that is written to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from tidelog.core.types import Offset
from tidelog.storage.log.renames import Renames
from tidelog.storage.log.segment import Segment
from tidelog.wire.batch import RecordBatch


class Segments:
    __slots__ = ("_bases", "_segments")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    def holding(self, offset: Offset) -> Segment:
        """The segment whose range includes ``offset``."""
        return self._segments[self._slot(offset)]

    def starting_with(self, offset: Offset) -> list[Segment]:
        """The segment of ``offset`` and all that follow."""
        return self._segments[self._slot(offset) :]

    def scan(self, start: Offset, end: Offset) -> Iterator[RecordBatch]:
        """The batches from the one that holds ``start`` to before ``end``, read one by one."""
        if start < end:
            for segment in self.starting_with(start):
                for _, batch in segment.scan(*segment.locate(start)):
                    if batch.base_offset >= end:
                        return
                    yield batch

    def spans(self) -> Iterator[tuple[Segment, Offset]]:
        """Every segment but the active one, with its end."""
        for slot in range(len(self._segments) - 1):
            yield self._segments[slot], self._bases[slot + 1]

    def _slot(self, offset: Offset) -> int:
        return max(bisect_right(self._bases, offset) - 1, 0)

    def have(self, some: list[Segment]) -> bool:
        """Whether these segments are in the log, consecutively."""
        slot = self._slot(some[0].base_offset)
        return self._segments[slot : slot + len(some)] == some

    def end_of(self, sealed: Segment) -> Offset:
        return self._bases[self._slot(sealed.base_offset) + 1]

    def replace(self, some: list[Segment], one: Segment) -> None:
        """Replace them all by ``one``, which has the base offset of the first."""
        slot = self._slot(one.base_offset)
        self._segments[slot : slot + len(some)] = [one]
        self._bases[slot : slot + len(some)] = [one.base_offset]

    def add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    # ------------------------------------------------------------ dropping

    def truncate(self, kept: Segment, position: int, end_offset: Offset) -> list[Path]:
        """End the log at ``position`` of ``kept``, with ``end_offset`` as the next offset, and make that
        segment active. Returns the files to remove. After an OSError the log is unchanged, except after
        ``NotUndone``."""
        dropped = self._segments[self._slot(kept.base_offset) + 1 :]
        sealed = not kept.active
        renames = Renames()
        try:
            if sealed:
                kept.activate()
            # The last segment first, so that a crash half-way leaves no gap.
            for segment in reversed(dropped):
                segment.mark_deleted(renames)
            kept.truncate(position, end_offset)
        except OSError:
            if sealed and kept.active:
                kept.seal()
            renames.undo()
            raise
        self._close(dropped)
        return renames.deleted

    def restart(self, fresh: Segment) -> list[Path]:
        """Replace all segments by ``fresh``, which has no file yet. Otherwise like ``truncate``."""
        first = self._segments[0]
        if first.base_offset == fresh.base_offset:
            return self.truncate(first, 0, first.base_offset)
        dropped = self._segments[:]
        renames = Renames()
        try:
            for segment in reversed(dropped):
                segment.mark_deleted(renames)
            fresh.create()
        except OSError:
            renames.undo()
            raise
        self._close(dropped)
        self.add(fresh)
        return renames.deleted

    def drop_below(self, offset: Offset, renames: Renames) -> None:
        """Drop every segment with only offsets below ``offset``, the oldest first. After an OSError the rest
        stays in the log, and can be dropped later."""
        while len(self._segments) > 1 and self._bases[1] <= offset:
            self._segments[0].mark_deleted(renames)
            self._close(self._segments[:1])

    def _close(self, dropped: list[Segment]) -> None:
        """Close consecutive segments that are no longer part of the log."""
        if dropped:
            slot = self._slot(dropped[0].base_offset)
            del self._segments[slot : slot + len(dropped)], self._bases[slot : slot + len(dropped)]
        for segment in dropped:
            segment.close()

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)
