"""Where records begin: each says how long it is, and so where the next one is.

Within a batch that is a chain and must be followed link by link; but many batches can be followed at the same
time, one link of each at once. Where there are few batches, or very unequal ones, each is walked by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from tidelog.pipeline.segments.varints import Bytes, Flags, Ints

_TOGETHER_MIN: Final = 32
"""With fewer batches a step of all of them costs more than the steps of each."""
_WASTE_MAX: Final = 4
"""Walking together takes as many steps as the longest batch has records; so much of it may be idle."""


def _steps() -> Ints:
    """How far it is to the next record, by the first two bytes of a length; 0 if it has more than two."""
    first = np.arange(256)[:, None]
    second = np.arange(256)[None, :]
    two = np.where(second < 0x80, 2 + ((first & 0x7F) >> 1) + (second << 6), 0)
    return np.where(first < 0x80, 1 + (first >> 1), two).astype(np.int64).reshape(-1)


_STEPS: Final = _steps()


@dataclass(slots=True)
class Bodies:
    """The records of the batches `number` of a chunk: `count` each, from `start` to `end` of some bytes."""

    number: Ints
    start: Ints
    end: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.number)

    def only(self, these: Flags | slice) -> Self:
        return type(self)(self.number[these], self.start[these], self.end[these], self.count[these])


def record_positions(data: bytes, bodies: Bodies) -> tuple[Ints, Flags]:
    """Where the records begin, in order, and of which batches that could be said. The others have none."""
    counts = bodies.count
    longest = int(counts.max(initial=0))
    total = int(counts.sum())
    sound = np.zeros(len(bodies), np.bool_)
    firsts = np.cumsum(counts) - counts
    positions = np.empty(total, np.int64)
    if len(bodies) >= _TOGETHER_MIN and longest * len(bodies) <= _WASTE_MAX * total:
        grid, sound = _walk_together(np.frombuffer(data, np.uint8), bodies, longest)
        positions = grid.T[np.arange(longest) < counts[:, None]]
    for index in np.flatnonzero(~sound).tolist():
        found: list[int] = []
        begin, count = int(firsts[index]), int(counts[index])
        if walk(data, int(bodies.start[index]), count, found) == bodies.end[index]:
            positions[begin : begin + count] = found
            sound[index] = True
    if not sound.all():
        positions = positions[np.repeat(sound, counts)]
    return positions, sound


def _walk_together(view: Bytes, bodies: Bodies, steps: int) -> tuple[Ints, Flags]:
    """Step by step (rows), where the record of each batch (columns) begins; and which came out right.

    A length of more than two bytes stops its batch where it is, so that it does not come out right. One that
    has no more records goes on into the bytes behind it, which are not looked at.
    """
    grid = np.zeros((steps, len(bodies)), np.int64)
    at = bodies.start.copy()
    ends = np.empty_like(at)
    by_count = np.argsort(bodies.count, kind="stable")
    sorted_counts = bodies.count[by_count]
    done = 0
    for step in range(steps):
        finished = int(np.searchsorted(sorted_counts, step, side="right"))
        if finished > done:
            these = by_count[done:finished]
            ends[these] = at[these]
            done = finished
        grid[step] = at
        index = view.take(at, mode="clip").astype(np.int64)
        index <<= 8
        index |= view.take(at + 1, mode="clip")
        at += _STEPS.take(index)
    these = by_count[done:]
    ends[these] = at[these]
    return grid, ends == bodies.end


def walk(data: bytes, start: int, count: int, found: list[int]) -> int | None:
    """Adds to `found` where `count` records begin, the first at `start`. Where the last one ends; None if it
    is not known.

    It sees every record of a batch, so it does as little as it can.
    """
    add = found.append
    at = start
    try:
        for _ in range(count):
            add(at)
            size = data[at]
            if size < 0x80:
                at += 1 + (size >> 1)
                continue
            more = data[at + 1]
            if more < 0x80:
                at += 2 + ((size & 0x7F | more << 7) >> 1)
                continue
            third = data[at + 2]
            size = size & 0x7F | (more & 0x7F) << 7 | (third & 0x7F) << 14
            if third < 0x80:
                at += 3 + (size >> 1)
                continue
            fourth, fifth = data[at + 3], data[at + 4]
            size |= (fourth & 0x7F) << 21
            if fourth < 0x80:
                at += 4 + (size >> 1)
            elif fifth < 0x10:
                at += 5 + ((size | fifth << 28) >> 1)
            else:
                return None
    except IndexError:
        return None
    return at
