"""A segment file as Arrow record batches: the way in.

    for segment in find_segments("/var/lib/kafka/data"):
        for rows in read_segment(segment, ["offset", "value"]):
            …

Rules of the file:

* Nothing in a file makes the reader fail: a batch that is damaged becomes a row with a `problem`, in its
  place, and the batches around it are read. Only a file that cannot be opened is an `OSError`.
* Records are given only if the CRC of their batch is right.
* Memory is bounded by the size of a chunk, or of one batch, whatever the size of the file; what a compressed
  batch may inflate to is bounded too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tidelog.pipeline.segments.decoding import INFLATED_MAX, ROWS_MAX, ChunkDecoder
from tidelog.pipeline.segments.index import narrowed
from tidelog.pipeline.segments.rows import Rows, SegmentFile
from tidelog.pipeline.segments.scan import Problem, scan


def read_segment(
    segment: SegmentFile,
    columns: Sequence[str] | None = None,
    *,
    offsets: range | None = None,
    rows_max: int = ROWS_MAX,
    inflated_max: int = INFLATED_MAX,
) -> Iterator[Any]:
    """The records of a segment, in order. Batches that lie outside `offsets` are not looked at, and where the
    index of the segment knows better, not even read."""
    with segment.place.open(segment.name) as source:
        if offsets is not None:
            segment = narrowed(segment, source, offsets)
        size = source.size()
        end = size if segment.end is None else min(segment.end, size)
        rows = Rows(segment, columns)
        decoder = ChunkDecoder(rows, segment.base_offset, rows_max=rows_max, inflated_max=inflated_max)
        for found in scan(source, segment.start, end):
            if isinstance(found, Problem):
                decoder.problems.append(found)
            else:
                yield from decoder.chunk(found, offsets)
        yield from decoder.told()


def read_piece(
    segments: Iterable[SegmentFile], columns: Sequence[str], offsets: range | None
) -> Iterator[Any]:
    """Several segments one after the other; one that cannot be opened is a row with a `problem`."""
    for segment in segments:
        try:
            yield from read_segment(segment, columns, offsets=offsets)
        except OSError as error:
            problem = Problem(segment.start, f"the file cannot be read: {error.strerror or error}")
            yield Rows(segment, columns).of_problems([problem])
