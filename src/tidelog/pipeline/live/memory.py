"""What is remembered of one partition, and which sightings contradict it.

The memory is a window: a hash of the value at each of the last 65,536 offsets, eight bytes each. So it is
bounded however long a topic lives, and what lies further back is neither a duplicate nor a rewrite to it.
(Hashes of 62 bits: among a hundred million records the chance of one false finding is about one in a
million.)

Rules of the file:

* Each contradiction is reported once: of an offset once for each anomaly, of a consumer's jump once.
* An acknowledgement says what stood at an offset; only what was *read* twice counts as there twice.
* A jump over offsets is an anomaly only if something is known to stand there. It may become known later, so
  jumps that nothing speaks against yet are kept, a bounded number of them.
* No Spark and no clock here: the same sightings in the same order give the same findings.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np

from tidelog.pipeline.live.findings import (
    DUPLICATED,
    GAP,
    INCONSISTENT_OFFSET,
    NONMONOTONIC_POLL,
    POLL_SKIP,
    REWRITTEN,
    Finding,
)

WINDOW: Final = 65_536
_JUMPS_MAX: Final = 256
_TOLD_MAX: Final = 4_096
_READ: Final = np.int64(1)


@dataclass(slots=True, frozen=True)
class Sightings:
    """Columns of the same length, one row for each time that a client saw what is at an offset."""

    offset: Any
    mark: Any
    """A hash of the value, as `marked` makes it."""
    has_value: Any
    is_read: Any
    """False: it was not read; a producer was told so."""
    position: Any
    """The offset that the reader had waited for; -1: not known."""
    time_us: Any
    who: Any
    value: Any
    """What to call the value; None: nothing."""

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, rows: Any) -> Sightings:
        return Sightings(*(getattr(self, column.name)[rows] for column in fields(self)))


def marked(hashes: Any) -> Any:
    """Hashes as they are remembered: never zero, which is *nothing*, and without the lowest bit, which says
    whether it was read."""
    return (hashes.astype(np.int64) | 2) & ~np.int64(1)


@dataclass(slots=True)
class Memory:
    """`first` is the first offset of the window; `marks` are the hashes from there, 0 where nothing is known,
    the lowest bit set where it was read."""

    first: int = 0
    marks: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    waits_for: int = -1
    """The offset that comes next, if it is we who read; -1: not known yet."""
    jumps: list[tuple[str, int, int, int]] = field(default_factory=list)
    """Who, from where, to where, when."""
    told: dict[str, set[int]] = field(default_factory=dict)
    """Of each anomaly, the offsets for which it was reported."""

    # ------------------------------------------------------------ keeping

    def pack(self) -> tuple[int, int, bytes, str]:
        told = {anomaly: sorted(offsets) for anomaly, offsets in self.told.items() if offsets}
        notes = json.dumps({"jumps": self.jumps, "told": told})
        return self.first, self.waits_for, self.marks.tobytes(), notes

    @classmethod
    def unpack(cls, first: int, waits_for: int, marks: bytes, notes: str) -> Memory:
        kept = json.loads(notes)
        jumps = [(who, start, end, when) for who, start, end, when in kept["jumps"]]
        told = {anomaly: set(offsets) for anomaly, offsets in kept["told"].items()}
        return cls(first, np.frombuffer(marks, np.int64).copy(), waits_for, jumps, told)

    # ------------------------------------------------------------ seeing

    def see(self, seen: Sightings, *, ours: bool = False, dense: bool = False) -> list[Finding]:
        """Take in what was seen and tell what cannot be. `ours`: it is we who read, in the order of offsets;
        `dense`: every offset of the topic should have a record."""
        if not len(seen):
            return []
        seen = seen.take(np.lexsort((seen.offset, seen.time_us)))
        found = self._gaps(seen, dense) if ours else self._moves(seen)
        self._make_room(int(seen.offset.min()) if ours else 0, int(seen.offset.max()))
        within = seen.take(seen.offset >= self.first)
        if len(within):
            found += self._rewrites(within) + self._duplicates(within)
        found += self._confirmed_jumps()
        for anomaly, offsets in self.told.items():
            self.told[anomaly] = set(
                sorted(offset for offset in offsets if offset >= self.first)[-_TOLD_MAX:]
            )
        return found

    def _make_room(self, lowest: int, highest: int) -> None:
        if not len(self.marks):
            self.first = max(lowest, highest + 1 - WINDOW)
        more = highest + 1 - self.first - len(self.marks)
        if more > 0:
            grown = np.concatenate([self.marks[-WINDOW:], np.zeros(min(more, WINDOW), np.int64)])
            self.marks = grown[-WINDOW:]
            self.first = highest + 1 - len(self.marks)

    def _is_new(self, anomaly: str, offset: int) -> bool:
        told = self.told.setdefault(anomaly, set())
        is_new = offset not in told
        told.add(offset)
        return is_new

    # ------------------------------------------------------------ positions

    def _gaps(self, seen: Sightings, dense: bool) -> list[Finding]:
        """Offsets that should come next and did not."""
        offsets = np.unique(seen.offset)
        start = self.waits_for if self.waits_for >= 0 else int(offsets[0])
        new = offsets[offsets >= start]
        self.waits_for = max(start, int(offsets[-1]) + 1)
        if not dense or not len(new):
            return []
        before = np.concatenate([[start], new[:-1] + 1])
        time_us = int(seen.time_us[-1])
        return [
            Finding(GAP, int(a), int(b) - 1, int(b - a), None, None, time_us, f"no record before {int(b)}")
            for a, b in zip(before, new, strict=True)
            if b > a
        ]

    def _moves(self, seen: Sightings) -> list[Finding]:
        """Reads that were not where their reader waited: behind are jumps, before are findings."""
        found = []
        placed = seen.is_read & (seen.position >= 0)
        for row in np.flatnonzero(placed & (seen.offset != seen.position)):
            who, offset, position = str(seen.who[row]), int(seen.offset[row]), int(seen.position[row])
            time_us = int(seen.time_us[row])
            if offset > position:
                self.jumps.append((who, position, offset, time_us))
            else:
                words = f"{who} waited for offset {position} and was given {offset}"
                found.append(
                    Finding(
                        NONMONOTONIC_POLL, offset, offset, 1, seen.value[row], who, time_us, words, position
                    )
                )
        return found

    def _confirmed_jumps(self) -> list[Finding]:
        found, open_ones = [], []
        for who, start, end, time_us in self.jumps:
            passed = self.marks[max(0, start - self.first) : max(0, end - self.first)]
            known = np.flatnonzero(passed)
            if len(known):
                read = bool((passed & _READ).any())
                first = max(start, self.first) + int(known[0])
                last = max(start, self.first) + int(known[-1])
                there = "was read by others" if read else "had been acknowledged"
                words = f"{who} waited for offset {start} and was given {end}; what it passed {there}"
                found.append(
                    Finding(
                        POLL_SKIP if read else GAP, first, last, len(known), None, who, time_us, words, start
                    )
                )
            elif end > self.first:
                open_ones.append((who, start, end, time_us))
        self.jumps = open_ones[-_JUMPS_MAX:]
        return found

    # ------------------------------------------------------------ values

    def _rewrites(self, seen: Sightings) -> list[Finding]:
        """Put every value in its place; those that find another there are findings."""
        order = np.lexsort((np.arange(len(seen)), seen.mark, seen.offset))
        offset, mark = seen.offset[order], seen.mark[order]
        starts = np.flatnonzero(
            np.concatenate([[True], (np.diff(offset) != 0) | (np.diff(mark) != 0)])
        )  # of each value at each offset
        read = np.logical_or.reduceat(seen.is_read[order], starts)
        row, place, value = order[starts], offset[starts] - self.first, mark[starts]
        before = self.marks[place]
        alone = np.bincount(place - place[0])[place - place[0]]  # sorted, and within the window
        plain = (alone == 1) & ((before == 0) | ((before & ~_READ) == value))
        self.marks[place[plain]] = value[plain] | (before[plain] & _READ) | read[plain]
        found = []
        for at in sorted(np.flatnonzero(~plain), key=lambda at: int(row[at])):
            known, is_read = self.marks[place[at]], bool(read[at])
            if known and (known & ~_READ) != value[at]:
                anomaly = REWRITTEN if is_read and known & _READ else INCONSISTENT_OFFSET
                if self._is_new(anomaly, int(offset[starts][at])):
                    found.append(_rewrite(anomaly, seen, int(row[at]), bool(known & _READ)))
                self.marks[place[at]] = value[at] | is_read
            else:
                self.marks[place[at]] = value[at] | (known & _READ) | is_read
        return found

    def _duplicates(self, seen: Sightings) -> list[Finding]:
        """Values that were read at more than one offset."""
        rows = np.flatnonzero(seen.is_read & seen.has_value)
        values, index = np.unique(seen.mark[rows], return_index=True)
        places = np.flatnonzero(self.marks & _READ)
        places = places[np.argsort(self.marks[places], kind="stable")]
        kept = self.marks[places] & ~_READ
        left, right = np.searchsorted(kept, values, "left"), np.searchsorted(kept, values, "right")
        found = []
        for at in np.flatnonzero(right - left > 1):
            offsets = [int(place) + self.first for place in places[left[at] : right[at]]]
            row = rows[index[at]]
            for offset in offsets[1:]:
                if self._is_new(DUPLICATED, offset):
                    name = seen.value[row] or "this value"
                    found.append(
                        Finding(
                            DUPLICATED,
                            offset,
                            offset,
                            1,
                            seen.value[row],
                            seen.who[row],
                            int(seen.time_us[row]),
                            f"{name} is at offset {offsets[0]} as well",
                        )
                    )
        return sorted(found, key=lambda finding: finding.offset)


def _rewrite(anomaly: str, seen: Sightings, row: int, was_read: bool) -> Finding:
    offset, value, who = int(seen.offset[row]), seen.value[row], seen.who[row]
    name = value or "a record without a value"
    if seen.is_read[row]:
        now = f"{who} read {name}" if who else f"the topic now holds {name}"
    else:
        now = f"{name} was acknowledged to {who} there"
    before = "another value was read there before" if was_read else "another value was acknowledged there"
    return Finding(anomaly, offset, offset, 1, value, who, int(seen.time_us[row]), f"{now}; {before}")
