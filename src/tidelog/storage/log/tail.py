"""The end of a log, cached in memory: most readers ask for the newest records.

A tail is a suffix of its log, so ``first_offset`` alone decides whether it can serve a read. All tails of a
broker share one budget; when it is used up, the largest tails shrink first. Offsets, positions and batches
are parallel lists, so a read is three binary searches and a slice, however many batches it returns.

A batch is a slice of the request that brought it. A tail that kept it would keep the whole request, so small
slices of large buffers are copied: the budget counts what is really held.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from tidelog.core.types import Offset
from tidelog.wire.batch import RecordBatch

TAIL_BYTES = 4 << 20
ALL_TAILS_BYTES = 64 << 20
_OVERHEAD_BYTES = 512
"""Approximate memory of a batch besides its bytes."""
_TRIM_SHARE = 0.75
_PINNED_SHARE = 0.75
"""A slice below this share of its buffer is copied."""


class TailBudget:
    """The memory limit of all tails of a broker."""

    __slots__ = ("_tails", "limit", "used")

    def __init__(self, limit: int = ALL_TAILS_BYTES) -> None:
        self.limit = limit
        self._tails: list[Tail] = []
        self.used = 0

    def join(self, tail: Tail) -> None:
        self._tails.append(tail)

    def leave(self, tail: Tail) -> None:
        tail.clear(tail.first_offset)
        self._tails.remove(tail)

    def enforce(self) -> None:
        """Shrink the tails to an equal share. That frees at least a quarter, so it happens rarely."""
        if self.used <= self.limit:
            return
        holding = [tail for tail in self._tails if tail.bytes]
        share = int(self.limit * _TRIM_SHARE) // len(holding)
        for tail in holding:
            tail.shrink_to(share)


class Tail:
    __slots__ = ("_batches", "_budget", "_limit", "_offsets", "_starts", "bytes", "first_offset")

    def __init__(self, end_offset: Offset, budget: TailBudget, limit: int = TAIL_BYTES) -> None:
        self.first_offset = end_offset
        """The tail holds everything from here to the log's end."""
        self.bytes = 0
        self._budget = budget
        self._limit = limit
        self._batches: list[RecordBatch] = []
        self._offsets: list[Offset] = []
        self._starts: list[int] = [0]
        """The byte position at which each batch begins, and the end of the last."""
        budget.join(self)

    def push(self, batch: RecordBatch) -> None:
        data = batch.data
        size = len(data)
        if size < len(data.obj) * _PINNED_SHARE:  # type: ignore[arg-type]  # a buffer that has a length
            batch.data = memoryview(bytes(data))
        starts = self._starts
        starts.append(starts[-1] + size)
        self._batches.append(batch)
        self._offsets.append(batch.base_offset)
        held = size + _OVERHEAD_BYTES
        self.bytes += held
        budget = self._budget
        budget.used += held
        if self.bytes > self._limit:
            self.shrink_to(int(self._limit * _TRIM_SHARE))
        if budget.used > budget.limit:
            budget.enforce()

    def read(self, start: Offset, end: Offset, max_bytes: int) -> list[RecordBatch]:
        """As ``Log.read``; ``start`` must not be below ``first_offset``."""
        batches, starts = self._batches, self._starts
        if not batches or start >= end:
            return []
        last = batches[-1]
        if last.base_offset == start and last.next_offset <= end:
            return [last]  # what nearly every reader asks for that waited for it
        first = max(bisect_right(self._offsets, start) - 1, 0)
        if first + 1 < len(batches) and batches[first].next_offset <= start:
            first += 1  # compaction removed ``start``: return the next batch
        stop = len(batches)
        if last.next_offset > end:
            stop = bisect_left(self._offsets, end, first)
            if stop > first and batches[stop - 1].next_offset > end:
                stop -= 1
        elif last.next_offset <= start:
            return []
        bound = starts[first] + max_bytes
        if starts[stop] > bound:
            stop = max(bisect_right(starts, bound, first, stop) - 1, first + 1)
        return batches[first:stop]

    def truncate(self, end_offset: Offset) -> None:
        """Truncate to ``end_offset``, where a batch begins."""
        if end_offset <= self.first_offset:
            self.clear(end_offset)
            return
        count = bisect_left(self._offsets, end_offset)
        self._keep(0, count)

    def clear(self, end_offset: Offset) -> None:
        self._keep(0, 0)
        self.first_offset = end_offset

    def shrink_to(self, limit: int) -> None:
        """Drop the oldest batches until at most ``limit`` bytes are held."""
        excess = self.bytes - limit
        first = 0
        starts = self._starts
        while excess > 0 and first < len(self._batches):
            excess -= starts[first + 1] - starts[first] + _OVERHEAD_BYTES
            first += 1
        if first:
            self.first_offset = self._batches[first - 1].next_offset
            self._keep(first, len(self._batches))

    def forget_below(self, offset: Offset) -> None:
        """Drop batches that compaction replaced in the files. No batch of the tail spans ``offset``."""
        if offset > self.first_offset:
            first = bisect_left(self._offsets, offset)
            self._keep(first, len(self._batches))
            self.first_offset = offset

    def _keep(self, first: int, stop: int) -> None:
        held = self._starts[stop] - self._starts[first] + (stop - first) * _OVERHEAD_BYTES
        self._budget.used -= self.bytes - held
        self.bytes = held
        self._batches = self._batches[first:stop]
        self._offsets = self._offsets[first:stop]
        self._starts = self._starts[first : stop + 1]
