"""The segments of one log in order: which one holds an offset, and what goes when the log loses an end.

There is always at least one. The last is the active one, the only one that is written to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from tidelog.core.types import Offset
from tidelog.storage.segment import Segment


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
        """The segment in which ``offset`` is, or would be."""
        return self._segments[self._slot(offset)]

    def starting_with(self, offset: Offset) -> list[Segment]:
        """The segment of ``offset`` and all that follow."""
        return self._segments[self._slot(offset) :]

    def spans(self) -> Iterator[tuple[Segment, Offset]]:
        """Every segment but the active one, with its end."""
        for slot in range(len(self._segments) - 1):
            yield self._segments[slot], self._bases[slot + 1]

    def _slot(self, offset: Offset) -> int:
        return max(bisect_right(self._bases, offset) - 1, 0)

    def have(self, some: list[Segment]) -> bool:
        """Whether these are in the log, one after the other."""
        slot = self._slot(some[0].base_offset)
        return self._segments[slot : slot + len(some)] == some

    def end_of(self, sealed: Segment) -> Offset:
        return self._bases[self._slot(sealed.base_offset) + 1]

    def replace(self, some: list[Segment], one: Segment) -> None:
        """Put ``one``, which has the base offset of the first, in the place of them all."""
        slot = self._slot(one.base_offset)
        self._segments[slot : slot + len(some)] = [one]
        self._bases[slot : slot + len(some)] = [one.base_offset]

    def add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def drop_after(self, kept: Segment) -> list[Path]:
        """Drop what follows ``kept``: the last first, so that a crash half-way leaves a log without a gap."""
        dropped: list[Path] = []
        while self._segments[-1] is not kept:
            dropped += self._segments.pop().mark_deleted()
            self._bases.pop()
        return dropped

    def drop_below(self, offset: Offset) -> list[Path]:
        """Drop every segment that holds only offsets below ``offset``, the oldest first."""
        dropped: list[Path] = []
        while len(self._segments) > 1 and self._bases[1] <= offset:
            dropped += self._segments[0].mark_deleted()  # if the disk refuses, it is still one of ours
            del self._segments[0], self._bases[0]
        return dropped

    def drop_all(self) -> list[Path]:
        dropped: list[Path] = []
        while self._segments:
            dropped += self._segments.pop().mark_deleted()
        self._bases.clear()
        return dropped

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)
