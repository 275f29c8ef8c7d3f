"""Which parts of which files are read, and by which tasks.

A task costs Spark tens of milliseconds, so small segments share one; and a large segment is cut where its
offset index knows a batch. The index also tells where a range of offsets lies. Nothing it says is believed:
a position is used only if the batch found there is the one that the index speaks of.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from struct import Struct
from typing import Any, Final

import numpy as np
from pyspark.sql.types import StructType

from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.segments.columns import BY_NAME
from tidelog.pipeline.segments.rows import SegmentFile
from tidelog.pipeline.segments.varints import Ints
from tidelog.wire.batch import HEADER, HEADER_SIZE, MAGIC

OFFSET_END: Final = (1 << 63) - 1
PIECE_BYTES_MAX: Final = 64 << 20
_PIECE_BYTES_MIN: Final = 1 << 20
_PIECES_WANTED: Final = 16
_ENTRY: Final = Struct(">ii")


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
    sizes = [_size(segment) for segment in chosen]
    target = max(_PIECE_BYTES_MIN, min(PIECE_BYTES_MAX, sum(sizes) // _PIECES_WANTED))
    tasks: list[list[SegmentFile]] = []
    filled = 0
    for segment, size in zip(chosen, sizes, strict=True):
        pieces = [segment] if size <= 2 * target else _cut(segment, size, target)
        for piece in pieces:
            size = _size(piece)
            if not tasks or filled + size > target:
                tasks.append([])
                filled = 0
            tasks[-1].append(piece)
            filled += size
    return tasks


def _size(segment: SegmentFile) -> int:
    if segment.end is not None:
        return segment.end - segment.start
    with suppress(OSError):
        return max(0, os.stat(segment.path).st_size - segment.start)
    return 0


# ---------------------------------------------------------------- by offsets


def _in_range(segments: Sequence[SegmentFile], offsets: range) -> list[SegmentFile]:
    """Those that may hold such offsets, each narrowed to where these may be."""
    bases: dict[Path, list[int]] = {}
    for segment in segments:
        bases.setdefault(segment.path.parent, []).append(segment.base_offset)
    followers = {
        folder: dict(zip(sorted(found), [*sorted(found)[1:], OFFSET_END], strict=True))
        for folder, found in bases.items()
    }
    return [
        _narrowed(segment, offsets)
        for segment in segments
        if segment.base_offset < offsets.stop
        and followers[segment.path.parent][segment.base_offset] > offsets.start
    ]


def _narrowed(segment: SegmentFile, offsets: range) -> SegmentFile:
    lasts, positions = _index(segment)
    start, end = segment.start, segment.end
    # The batch of an entry ends at or before the wanted offsets: everything before it does as well.
    before = np.flatnonzero(lasts < offsets.start)
    if before.size and _is_batch(segment, int(lasts[before[-1]]), int(positions[before[-1]])):
        start = max(start, int(positions[before[-1]]))
    # The batch of an entry reaches the last wanted offset: whatever follows it lies beyond.
    after = np.flatnonzero(lasts >= offsets.stop - 1)[1:2]
    if after.size and _is_batch(segment, int(lasts[after[0]]), int(positions[after[0]])):
        end = int(positions[after[0]]) if end is None else min(end, int(positions[after[0]]))
    return replace(segment, start=start, end=end)


def _cut(segment: SegmentFile, size: int, target: int) -> list[SegmentFile]:
    """Pieces of about the target's size."""
    lasts, positions = _index(segment)
    stop = segment.start + size
    cuts = [segment.start]
    for goal in range(segment.start + target, stop - target // 2, target):
        at = int(np.searchsorted(positions, goal))
        if at == len(positions) or not cuts[-1] < positions[at] < stop:
            continue
        if _is_batch(segment, int(lasts[at]), int(positions[at])):
            cuts.append(int(positions[at]))
    ends: list[int | None] = [*cuts[1:], segment.end]
    return [replace(segment, start=start, end=end) for start, end in zip(cuts, ends, strict=True)]


# ---------------------------------------------------------------- the index


def _index(segment: SegmentFile) -> tuple[Ints, Ints]:
    """The last offsets and the positions of the batches that the offset index knows, in order."""
    try:
        content = segment.path.with_suffix(".index").read_bytes()
    except OSError:
        content = b""
    return index_entries(content, segment.base_offset)


def index_entries(content: bytes, base_offset: int) -> tuple[Ints, Ints]:
    """The same out of the bytes of an index."""
    whole = len(content) // _ENTRY.size * _ENTRY.size
    entries = np.frombuffer(content[:whole], ">i4").reshape(-1, 2).astype(np.int64)
    # Kafka's index of a segment that it writes to has zeros behind the last entry.
    steps = np.diff(entries, axis=0, prepend=np.array([[-1, -1]]))
    growing = np.minimum(steps[:, 0], steps[:, 1]) > 0
    count = len(entries) if growing.all() else int(np.argmin(growing))
    return entries[:count, 0] + base_offset, entries[:count, 1]


def _is_batch(segment: SegmentFile, last_offset: int, position: int) -> bool:
    try:
        descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            header = os.pread(descriptor, HEADER_SIZE, position)
        finally:
            os.close(descriptor)
    except OSError:
        return False
    if len(header) < HEADER_SIZE:
        return False
    base_offset, _, _, magic, _, _, last_offset_delta, *_ = HEADER.unpack(header)
    return bool(magic == MAGIC and base_offset + last_offset_delta == last_offset)


# ---------------------------------------------------------------- columns


def chosen_columns(schema: StructType, source: str, known: tuple[str, ...] = tuple(BY_NAME)) -> list[str]:
    """The names of the schema's columns, in its order; `PipelineError` for one that cannot be given."""
    for field in schema.fields:
        if field.name not in known:
            raise PipelineError(f"{source} has no column {field.name}; it has {', '.join(known)}")
        own, asked = BY_NAME[field.name].spark, field.dataType.simpleString()
        if asked != own:
            raise PipelineError(f"the column {field.name} of {source} is {own}, not {asked}")
    return list(schema.names)
