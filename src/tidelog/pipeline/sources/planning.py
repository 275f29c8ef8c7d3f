"""Which parts of which files are read, and by which tasks.

A task costs Spark tens of milliseconds, so small segments share one; and a large segment is cut where its
offset index knows a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tidelog.pipeline.segments.index import index_of, is_batch
from tidelog.pipeline.segments.rows import SegmentFile

OFFSET_END: Final = (1 << 63) - 1
PIECE_BYTES_MAX: Final = 64 << 20
_PIECE_BYTES_MIN: Final = 1 << 20
_PIECES_WANTED: Final = 16


@dataclass(slots=True, frozen=True)
class ReadPlan:
    """What a query can use. None: no matter."""

    brokers: frozenset[Any] | None = None
    topics: frozenset[Any] | None = None
    partitions: frozenset[Any] | None = None
    offsets: range | None = None

    def allows(self, segment: SegmentFile) -> bool:
        return (
            (self.brokers is None or segment.broker in self.brokers)
            and (self.topics is None or segment.topic in self.topics)
            and (self.partitions is None or segment.partition in self.partitions)
        )


def plan(segments: Iterable[SegmentFile], wanted: ReadPlan) -> list[list[SegmentFile]]:
    """Parts of segments, together as one task each."""
    chosen = [segment for segment in segments if wanted.allows(segment)]
    if wanted.offsets is not None:
        chosen = _in_range(chosen, wanted.offsets)
    sizes = [segment.place.size(segment.name) or 0 for segment in chosen]
    target = max(_PIECE_BYTES_MIN, min(PIECE_BYTES_MAX, sum(sizes) // _PIECES_WANTED))
    tasks: list[list[SegmentFile]] = []
    filled = 0
    for segment, size in zip(chosen, sizes, strict=True):
        pieces = [segment] if size <= 2 * target else _cut(segment, size, target)
        for piece in pieces:
            size_of_piece = (size if piece.end is None else piece.end) - piece.start
            if not tasks or filled + size_of_piece > target:
                tasks.append([])
                filled = 0
            tasks[-1].append(piece)
            filled += size_of_piece
    return tasks


def _in_range(segments: Sequence[SegmentFile], offsets: range) -> list[SegmentFile]:
    """Those that may hold such offsets. Where in them is found when they are read."""
    bases: dict[str, list[int]] = {}
    for segment in segments:
        bases.setdefault(_folder(segment), []).append(segment.base_offset)
    followers = {
        folder: dict(zip(sorted(found), [*sorted(found)[1:], OFFSET_END], strict=True))
        for folder, found in bases.items()
    }
    return [
        segment
        for segment in segments
        if segment.base_offset < offsets.stop
        and followers[_folder(segment)][segment.base_offset] > offsets.start
    ]


def _folder(segment: SegmentFile) -> str:
    return segment.path.rpartition("/")[0]


def _cut(segment: SegmentFile, size: int, target: int) -> list[SegmentFile]:
    """Pieces of about the target's size."""
    lasts, positions = index_of(segment)
    cuts = [segment.start]
    with segment.place.open(segment.name) as source:
        for goal in range(segment.start + target, size - target // 2, target):
            at = int(np.searchsorted(positions, goal))
            if at == len(positions) or not cuts[-1] < positions[at] < size:
                continue
            if is_batch(source, int(lasts[at]), int(positions[at])):
                cuts.append(int(positions[at]))
    ends: list[int | None] = [*cuts[1:], segment.end]
    return [replace(segment, start=start, end=end) for start, end in zip(cuts, ends, strict=True)]
