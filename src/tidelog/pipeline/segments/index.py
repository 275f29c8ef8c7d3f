"""The offset index of a segment: where a range of offsets lies in the file.

Nothing that an index says is believed: a position is used only if the batch found there is the one that the
index speaks of.
"""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import Final

import numpy as np

from tidelog.pipeline.files import Source
from tidelog.pipeline.segments.rows import SegmentFile
from tidelog.pipeline.segments.varints import Ints
from tidelog.wire.batch import HEADER, HEADER_SIZE, MAGIC

_ENTRY: Final = Struct(">ii")
_SPAN_MAX: Final = 1 << 31
"""No segment has more offsets: an index counts them from the first, in 31 bits."""


def index_of(segment: SegmentFile) -> tuple[Ints, Ints]:
    """The last offsets and the positions of the batches that the offset index knows, in order."""
    try:
        content = segment.place.read(segment.name.removesuffix(".log") + ".index")
    except OSError:
        content = b""
    whole = len(content) // _ENTRY.size * _ENTRY.size
    entries = np.frombuffer(content[:whole], ">i4").reshape(-1, 2).astype(np.int64)
    # Kafka's index of a segment that it writes to has zeros behind the last entry.
    steps = np.diff(entries, axis=0, prepend=np.array([[-1, -1]]))
    growing = np.minimum(steps[:, 0], steps[:, 1]) > 0
    count = len(entries) if growing.all() else int(np.argmin(growing))
    return entries[:count, 0] + segment.base_offset, entries[:count, 1]


def is_batch(source: Source, last_offset: int, position: int) -> bool:
    """Whether a batch that ends with this offset begins there."""
    header = source.read_at(HEADER_SIZE, position)
    if len(header) < HEADER_SIZE:
        return False
    base_offset, _, _, magic, _, _, last_offset_delta, *_ = HEADER.unpack(header)
    return bool(magic == MAGIC and base_offset + last_offset_delta == last_offset)


def narrowed(segment: SegmentFile, source: Source, offsets: range) -> SegmentFile:
    """The part of the segment in which these offsets lie at most; `source` is its open file."""
    start, end = segment.start, segment.end
    if offsets.start <= segment.base_offset and offsets.stop - segment.base_offset >= _SPAN_MAX:
        return segment
    lasts, positions = index_of(segment)
    # The batch of an entry ends before the wanted offsets: everything before it does as well.
    before = np.flatnonzero(lasts < offsets.start)
    if before.size and is_batch(source, int(lasts[before[-1]]), int(positions[before[-1]])):
        start = max(start, int(positions[before[-1]]))
    # The batch of an entry reaches the last wanted offset: whatever follows it lies beyond.
    after = np.flatnonzero(lasts >= offsets.stop - 1)[1:2]
    if after.size and is_batch(source, int(lasts[after[0]]), int(positions[after[0]])):
        end = int(positions[after[0]]) if end is None else min(end, int(positions[after[0]]))
    return replace(segment, start=start, end=end)
