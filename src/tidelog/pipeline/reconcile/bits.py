"""Sets of offsets as bitmaps of one stretch each.

A stretch is `STRETCH` offsets, aligned. Its set is a numpy array of bools while it is worked on, and bytes
while it travels or is kept: a bitmap of 8 KB, or the positions as 16-bit numbers where these are fewer bytes.
So a set never costs more than two bytes for each row, nor more than one bit for each offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

STRETCH: Final = 1 << 16
_DENSE_BYTES: Final = STRETCH // 8
_POSITION: Final = np.dtype("<u2")

Bools = Any
"""An array of `STRETCH` bools."""


def empty() -> Bools:
    return np.zeros(STRETCH, bool)


def pack(members: Bools) -> bytes:
    count = int(np.count_nonzero(members))
    if count * _POSITION.itemsize < _DENSE_BYTES:
        return np.flatnonzero(members).astype(_POSITION).tobytes()
    return np.packbits(members, bitorder="little").tobytes()


def unpack(packed: bytes) -> Bools:
    if len(packed) == _DENSE_BYTES:
        return np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little").view(bool)
    members = empty()
    members[np.frombuffer(packed, _POSITION)] = True
    return members


class OffsetSet:
    """A set of offsets of one partition, kept packed."""

    __slots__ = ("stretches",)

    def __init__(self, stretches: dict[int, bytes] | None = None) -> None:
        self.stretches: dict[int, bytes] = stretches or {}

    def members(self, stretch: int) -> Bools:
        packed = self.stretches.get(stretch)
        return empty() if packed is None else unpack(packed)

    def put(self, stretch: int, members: Bools) -> None:
        if members.any():
            self.stretches[stretch] = pack(members)
        else:
            self.stretches.pop(stretch, None)

    def unite(self, other: OffsetSet) -> None:
        for stretch, packed in other.stretches.items():
            if stretch in self.stretches:
                self.put(stretch, self.members(stretch) | unpack(packed))
            else:
                self.stretches[stretch] = packed

    def count(self, start: int, end: int) -> int:
        """How many of a range are in the set."""
        inside = [s for s in self.stretches if start < (s + 1) * STRETCH and s * STRETCH < end]
        return sum(
            int(np.count_nonzero(self.members(s)[max(start - s * STRETCH, 0) : max(end - s * STRETCH, 0)]))
            for s in inside
        )

    def first(self, start: int, end: int) -> int:
        """The first of a range that is in the set; `end` if none is."""
        for s in sorted(self.stretches):
            if start < (s + 1) * STRETCH and s * STRETCH < end:
                found = np.flatnonzero(self.members(s)) + s * STRETCH
                found = found[(found >= start) & (found < end)]
                if len(found):
                    return int(found[0])
        return end

    def __len__(self) -> int:
        return sum(int(np.count_nonzero(unpack(packed))) for packed in self.stretches.values())


class Gathering:
    """An `OffsetSet` while it grows in about the order of offsets: only a few stretches are kept open."""

    _OPEN_MAX: Final = 64

    def __init__(self, done: OffsetSet | None = None) -> None:
        self._done = OffsetSet() if done is None else done
        self._open: dict[int, Bools] = {}

    def _at(self, stretch: int) -> Bools:
        found = self._open.get(stretch)
        if found is None:
            if len(self._open) >= self._OPEN_MAX:
                self._close()
            found = self._open[stretch] = self._done.members(stretch).copy()
        return found

    def add_range(self, start: int, end: int) -> None:
        for stretch, low, high in split(start, end):
            self._at(stretch)[low:high] = True

    def remove_range(self, start: int, end: int) -> None:
        for stretch, low, high in split(start, end):
            self._at(stretch)[low:high] = False

    def parts(self, start: int, end: int) -> Iterator[tuple[int, int, Bools]]:
        """The range by stretches: start, end, and which of these offsets are in the set."""
        for stretch, low, high in split(start, end):
            base = stretch * STRETCH
            yield base + low, base + high, self._at(stretch)[low:high].copy()

    def add(self, offsets: Any) -> None:
        for stretch in np.unique(offsets // STRETCH).tolist():
            chosen = offsets[offsets // STRETCH == stretch]
            self._at(stretch)[chosen % STRETCH] = True

    def _close(self) -> None:
        for stretch, members in self._open.items():
            self._done.put(stretch, members)
        self._open.clear()

    def finished(self) -> OffsetSet:
        self._close()
        return self._done


def split(start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The stretches of a range, and which part of each."""
    for stretch in range(start // STRETCH, -(-end // STRETCH)):
        base = stretch * STRETCH
        yield stretch, max(start - base, 0), min(end - base, STRETCH)


def runs(codes: Any) -> Iterable[tuple[int, int, int]]:
    """Neighbours of the same code together: start, end, code."""
    if not len(codes):
        return []
    cuts = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    starts = np.concatenate(([0], cuts))
    ends = np.concatenate((cuts, [len(codes)]))
    return zip(starts.tolist(), ends.tolist(), codes[starts].tolist(), strict=True)
