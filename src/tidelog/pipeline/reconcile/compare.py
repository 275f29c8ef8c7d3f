"""One bitmap against the other: ranges of offsets with a presence and, where absent, a cause.

Rules of the file: counts are exact whatever the size. Ranges are kept as far as `RANGES_MAX` allows, and
those that accuse the pipeline have a limit of their own: a topic of which compaction took every other record
has as many ranges as records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tidelog.pipeline.reconcile import bits
from tidelog.pipeline.reconcile.bits import STRETCH, OffsetSet
from tidelog.pipeline.reconcile.facts import AbsenceCause, OffsetRange, Presence
from tidelog.pipeline.reconcile.skips import skipped
from tidelog.pipeline.reconcile.table_side import PartitionRows
from tidelog.pipeline.reconcile.topic import UNKNOWN_TIME, PartitionLog

RANGES_MAX: Final = 200_000
"""For each partition, of those that accuse and of those that do not."""

Fate = tuple[Presence, AbsenceCause | None]

_PRESENCES: Final = tuple(Presence)
_CAUSES: Final = tuple(AbsenceCause)
_NO_CAUSE: Final = len(_CAUSES)
_CODES: Final = 256
_NOT_KEPT: Final = _CODES - 1


def _code(presence: Presence, cause: AbsenceCause | None = None) -> int:
    return _PRESENCES.index(presence) * 32 + (_NO_CAUSE if cause is None else _CAUSES.index(cause))


def _meaning(code: int) -> Fate:
    cause = code % 32
    return _PRESENCES[code // 32], None if cause == _NO_CAUSE else _CAUSES[cause]


_ACCUSED: Final = np.zeros(_CODES, bool)
_ACCUSED[[_code(each) for each in Presence if OffsetRange(0, 0, 0, each).accused]] = True
_ACCUSED[[_code(Presence.ABSENT, c) for c in _CAUSES if OffsetRange(0, 0, 0, Presence.ABSENT, c).accused]] = (
    True
)


@dataclass(slots=True, frozen=True)
class KeyFacts:
    """Of a table that is matched by key, whose rows stand for the last record of their key. Offsets of
    records that are not the last of their key, of tombstones that are, and of records without a key."""

    superseded: OffsetSet = field(default_factory=OffsetSet)
    deleted: OffsetSet = field(default_factory=OffsetSet)
    keyless: OffsetSet = field(default_factory=OffsetSet)


@dataclass(slots=True, frozen=True)
class Known:
    """What else is known of a partition, from a checkpoint and from earlier runs. Ends are exclusive; None:
    not known."""

    query_start: int | None = None
    query_end: int | None = None
    batches: tuple[tuple[int, int], ...] = ()
    seen_end: int | None = None
    """An earlier run, or the query, saw the topic reach this far."""
    recreated: bool = False
    jumped: int = 0
    """The query passed over the offsets below this one of a topic that was created again."""
    removed: OffsetSet | None = None
    """Offsets that an earlier version of the table had."""
    keys: KeyFacts = field(default_factory=KeyFacts)


@dataclass(slots=True)
class PartitionResult:
    """Offsets from `first` to `end` (exclusive) were judged; up to `settled` nothing is waited for."""

    partition: int
    first: int
    end: int
    settled: int
    rows: int = 0
    days: Counter[tuple[int, Presence, AbsenceCause | None]] = field(default_factory=Counter)
    """Offsets by the day of their batch (since 1970; -1: not known)."""
    earliest: dict[Fate, tuple[int, int]] = field(default_factory=dict)
    """The first offset of each fate, and its time in ms."""
    newest_ms: int = UNKNOWN_TIME
    """Of the topic."""
    accused: list[OffsetRange] = field(default_factory=list)
    others: list[OffsetRange] = field(default_factory=list)
    cut: bool = False
    """Whether there are more ranges than were kept."""
    earlier_rows: int = 0
    """Offsets at which a row of a topic was left out that was there before this one."""
    uncertain: int = 0
    """Offsets that left the topic after the query had committed a batch over them, and are absent."""

    @property
    def counts(self) -> Counter[Fate]:
        found: Counter[Fate] = Counter()
        for (_, presence, cause), size in self.days.items():
            found[presence, cause] += size
        return found

    @property
    def ranges(self) -> list[OffsetRange]:
        return sorted([*self.accused, *self.others], key=lambda each: each.start)


def compare(
    log: PartitionLog, rows: PartitionRows, known: Known, different: OffsetSet, window: range | None = None
) -> PartitionResult:
    """`window` bounds the offsets that are judged."""
    last = rows.last()
    table_end = 0 if last is None else last + 1
    first = log.first if window is None else max(log.first, window.start)
    end = max(log.end, known.seen_end or 0, log.truncated_end or 0, table_end)
    if window is not None:
        end = min(end, window.stop)
    end = max(first, end)
    arrived = known.query_end if known.query_end is not None else table_end
    settled = max(first, min(end, log.stable_end, arrived))
    result = PartitionResult(log.partition, first, end, settled, rows.rows, newest_ms=log.newest_ms)
    rules = _Rules(log, rows, known, different, arrived=arrived, first=first)
    tally, ranges = _Tally(log, result), _Ranges(result)
    for start, stop, codes in _parts(rules, range(first, end)):
        tally.add(start, stop, codes)
        ranges.add(start, stop, codes)
    ranges.close()
    if known.query_end is not None:
        over = range(max(first, known.query_start or 0), min(known.query_end, log.log_start, end))
        lost = result.counts[Presence.ABSENT, AbsenceCause.SKIPPED]
        result.uncertain = max(0, len(over) - rows.seen.count(over.start, over.stop) - lost)
    return result


def _parts(rules: _Rules, judged: range) -> Iterator[tuple[int, int, Any]]:
    """Start, end and the code of each offset; one number where all share it."""
    at = judged.start
    for stretch in rules.stretches(judged):
        base = stretch * STRETCH
        low, high = max(base, judged.start), min(base + STRETCH, judged.stop)
        if at < low:
            yield at, low, rules.code_at(at)
        codes = rules.codes(stretch)
        yield low, high, codes if isinstance(codes, int) else codes[low - base : high - base]
        at = high
    if at < judged.stop:
        yield at, judged.stop, rules.code_at(at)


class _Tally:
    """Counts by day and fate."""

    def __init__(self, log: PartitionLog, result: PartitionResult) -> None:
        self._log, self._result = log, result
        self._days = log.days()

    def add(self, start: int, end: int, codes: Any) -> None:
        at = bisect_right(self._days, (start, 1 << 62)) - 1
        low = start
        while low < end:
            following = self._days[at + 1][0] if at + 1 < len(self._days) else end
            high = min(end, max(low, following))
            if low < high:
                part = codes if isinstance(codes, int) else codes[low - start : high - start]
                self._count(low, high, self._days[at][1], part)
            low, at = high, at + 1

    def _count(self, low: int, high: int, day: int, codes: Any) -> None:
        if isinstance(codes, int):
            found = {codes: high - low}
        else:
            counts = np.bincount(codes, minlength=_CODES)
            found = {code: int(counts[code]) for code in np.flatnonzero(counts).tolist()}
        for code, size in found.items():
            fate = _meaning(code)
            self._result.days[day, *fate] += size
            if fate not in self._result.earliest:
                offset = low if isinstance(codes, int) else low + int((codes == code).argmax())
                self._result.earliest[fate] = (offset, self._log.time_of(offset))


class _Ranges:
    """Joins neighbours of the same code, and keeps as many as there is room for."""

    def __init__(self, result: PartitionResult) -> None:
        self._result = result
        self._before: tuple[int, int, int] | None = None

    def add(self, start: int, end: int, codes: Any) -> None:
        if isinstance(codes, int):
            self._one(start, end, codes)
            return
        if len(self._result.others) >= RANGES_MAX:
            codes = np.where(_ACCUSED[codes], codes, _NOT_KEPT)
        for low, high, code in bits.runs(codes):
            self._one(start + low, start + high, code)

    def _one(self, start: int, end: int, code: int) -> None:
        before = self._before
        if before is not None and before[1] == start and before[2] == code:
            self._before = (before[0], end, code)
        else:
            self.close()
            self._before = (start, end, code)

    def close(self) -> None:
        if self._before is None:
            return
        start, end, code = self._before
        kept = self._result.accused if _ACCUSED[code] else self._result.others
        if code == _NOT_KEPT or len(kept) >= RANGES_MAX:
            self._result.cut = True
        else:
            kept.append(OffsetRange(self._result.partition, start, end, *_meaning(code)))
        self._before = None


Members = Callable[[OffsetSet], Any]


class _Rules:
    """What becomes of an offset, for a whole stretch at once."""

    def __init__(
        self,
        log: PartitionLog,
        rows: PartitionRows,
        known: Known,
        different: OffsetSet,
        *,
        arrived: int,
        first: int,
    ) -> None:
        self._log, self._rows, self._known = log, rows, known
        self._different, self._arrived = different, arrived
        self._removed = OffsetSet() if known.removed is None else known.removed
        self._skips = skipped(known.batches, rows.seen, first, log.log_start)

    def stretches(self, judged: range) -> list[int]:
        """Those within which offsets may differ in their fates."""
        log = self._log
        sets = (log.records, log.aborted, log.markers, log.unreadable, self._rows.seen, self._removed)
        changes = [log.log_start, log.end, log.stable_end, self._arrived, self._known.query_start or 0]
        changes.append(self._known.jumped)
        changes += [bound for skip in self._skips for bound in skip]
        found = {bound // STRETCH for bound in changes}.union(*(each.stretches for each in sets))
        return sorted(s for s in found if s * STRETCH < judged.stop and (s + 1) * STRETCH > judged.start)

    def code_at(self, offset: int) -> int:
        """Of an offset outside of these."""
        return int(self._absent(np.array([offset]), lambda _: np.zeros(1, bool))[0])

    def codes(self, stretch: int) -> Any:
        log, rows = self._log, self._rows
        packed = rows.seen.stretches.get(stretch)
        special = (rows.twice, self._different, self._known.keys.deleted)
        calm = all(stretch not in each.stretches for each in special)
        same = packed is not None and packed == log.records.stretches.get(stretch)
        if calm and same and bits.unpack(packed or b"").all():
            return _code(Presence.ONCE)

        def members(of: OffsetSet) -> Any:
            return of.members(stretch)

        offsets = np.arange(stretch * STRETCH, (stretch + 1) * STRETCH)
        seen = members(rows.seen)
        codes = np.where(seen, self._present(offsets, members), self._absent(offsets, members))
        different = seen & members(self._different) & ~members(self._known.keys.deleted)
        codes = np.where(different, _code(Presence.DIFFERENT), codes)
        return np.where(members(rows.twice), _code(Presence.TWICE), codes)

    def _absent(self, offsets: Any, members: Members) -> Any:
        """If the table has no row of it: later rules give way to earlier ones."""
        log, known = self._log, self._known
        skips = (offsets < known.jumped) & members(log.records)
        for start, end in self._skips:
            skips |= (offsets >= start) & (offsets < end)
        conditions = [
            (members(log.markers), AbsenceCause.MARKER),
            (members(log.aborted), AbsenceCause.ABORTED),
            ((offsets >= log.stable_end) & (offsets < log.end), AbsenceCause.OPEN),
            (members(log.unreadable), AbsenceCause.UNREADABLE),
            (offsets >= log.end, AbsenceCause.RECREATED if known.recreated else AbsenceCause.TRUNCATED),
            (members(known.keys.superseded), AbsenceCause.SUPERSEDED),
            (members(known.keys.deleted), AbsenceCause.DELETED),
            (members(known.keys.keyless), AbsenceCause.NO_KEY),
            (members(self._removed), AbsenceCause.MAINTENANCE),
            (offsets >= self._arrived, AbsenceCause.NOT_YET),
            (offsets < (known.query_start or 0), AbsenceCause.BEFORE_QUERY),
            (skips, AbsenceCause.SKIPPED),
            (offsets < log.log_start, AbsenceCause.BEFORE_LOG_START),
            (~members(log.records), AbsenceCause.COMPACTED),
        ]
        codes = np.full(len(offsets), _code(Presence.ABSENT, AbsenceCause.UNEXPLAINED))
        for condition, cause in reversed(conditions):
            codes = np.where(condition, _code(Presence.ABSENT, cause), codes)
        return codes

    def _present(self, offsets: Any, members: Members) -> Any:
        """If the table has one row of it."""
        log = self._log
        uncommitted = members(log.markers) | members(log.aborted)
        codes = np.where(uncommitted, _code(Presence.UNCOMMITTED), _code(Presence.ONCE))
        codes = np.where(members(self._known.keys.deleted), _code(Presence.NOT_DELETED), codes)
        beyond = Presence.EARLIER_TOPIC if self._known.recreated else Presence.BEYOND_END
        return np.where(offsets >= log.end, _code(beyond), codes)
