"""What a streaming query skipped: `failOnDataLoss=false` makes it go on where the topic begins.

Of an offset that has left the topic nothing says whether it was a record, a marker or nothing. But retention
takes the beginning of what is there. So where a committed batch lacks its first offsets, all of them up to
its first row, the query found them gone.

Rules of the file: a marker may be the first offset of a batch as well. Where the rest of what left the topic
has holes too, a run must be longer than markers are in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.pipeline.reconcile.bits import OffsetSet

RUN_MIN: Final = 16
Ranges = list[tuple[int, int]]


def skipped(batches: Sequence[tuple[int, int]], seen: OffsetSet, first: int, log_start: int) -> Ranges:
    """Ranges of offsets below the start of the log, ends exclusive. `batches` are in order; offsets below
    `first` do not count."""
    found: Ranges = []
    covered = there = 0
    for batch_start, batch_end in batches:
        start, end = max(batch_start, first), min(batch_end, log_start)
        if start >= end:
            continue
        covered += end - start
        there += seen.count(start, end)
        gone = seen.first(start, end)
        if gone > start and found and found[-1][1] == start:
            found[-1] = (found[-1][0], gone)
        elif gone > start:
            found.append((start, gone))
    holes_elsewhere = covered - there > sum(end - start for start, end in found)
    return [(start, end) for start, end in found if not holes_elsewhere or end - start >= RUN_MIN]
