"""The continuity proof's result: counts, ranges and days, as numbers, DataFrames and JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from tidelog.narrate.phrasebook import Phrase, say
from tidelog.pipeline.reconcile.compare import Fate, PartitionResult
from tidelog.pipeline.reconcile.facts import LOSSES, UNDECIDED, AbsenceCause, OffsetRange, Presence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RANGES: Final = (
    "topic string, partition int, start bigint, end bigint, offsets bigint, presence string, cause string"
)
DAYS: Final = (
    "topic string, day date, expected bigint, delivered bigint, lost bigint, twice bigint, "
    "different bigint, waiting bigint, completeness double"
)
_LISTED_MAX: Final = 1000
"""Ranges in the object for JSON. The DataFrame has all that were kept."""
_DELIVERED: Final = frozenset({Presence.ONCE, Presence.TWICE, Presence.DIFFERENT})
_EPOCH: Final = date(1970, 1, 1)


@dataclass(slots=True)
class Day:
    """Offsets of one day of the topic. `expected` are records that the table should have by now."""

    day: date | None
    delivered: int = 0
    lost: int = 0
    twice: int = 0
    different: int = 0
    waiting: int = 0

    @property
    def expected(self) -> int:
        return self.delivered + self.lost

    @property
    def completeness(self) -> float | None:
        return self.delivered / self.expected if self.expected else None

    def add(self, presence: Presence, cause: AbsenceCause | None, size: int) -> None:
        self.delivered += size if presence in _DELIVERED else 0
        self.lost += size if cause in LOSSES else 0
        self.twice += size if presence is Presence.TWICE else 0
        self.different += size if presence is Presence.DIFFERENT else 0
        self.waiting += size if cause is AbsenceCause.NOT_YET else 0


@dataclass
class Continuity:
    """The result. `held`: no row is missing, doubled or foreign without a cause that excuses the table."""

    spark: SparkSession
    topic: str
    source: str
    """Where the topic was read."""
    partitions: list[PartitionResult]
    rows: int
    nowhere: int
    """Rows of the topic without a partition or an offset; by key: whose key the topic does not have."""
    problems: list[str] = field(default_factory=list)
    not_checked: list[Phrase] = field(default_factory=list)
    earlier_accused: int = 0
    """Offsets that earlier runs with the same state held against the pipeline."""
    by_key: bool = False
    """Whether rows were matched by key."""
    unknown_keys: int = 0
    """Rows whose key the topic does not have, where it may have had it once."""

    @cached_property
    def counts(self) -> Counter[Fate]:
        total: Counter[Fate] = Counter()
        for each in self.partitions:
            total.update(each.counts)
        return total

    def count(self, what: Presence | AbsenceCause) -> int:
        return sum(size for fate, size in self.counts.items() if what in fate)

    @property
    def offsets(self) -> int:
        return sum(self.counts.values())

    @property
    def earlier_rows(self) -> int:
        """Offsets at which the table has a row of a topic that was deleted."""
        return self.count(Presence.EARLIER_TOPIC) + sum(each.earlier_rows for each in self.partitions)

    @property
    def lost(self) -> int:
        return sum(size for (_, cause), size in self.counts.items() if cause in LOSSES)

    @property
    def accused(self) -> int:
        """Offsets that speak against the pipeline."""
        return sum(size for fate, size in self.counts.items() if OffsetRange(0, 0, 0, *fate).accused)

    @property
    def held(self) -> bool:
        return not self.accused and not self.nowhere

    @property
    def conclusive(self) -> bool:
        """A fault always is; that there is none is only said of what could be read."""
        doubtful = any(cause in UNDECIDED for _, cause in self.counts) or bool(self.problems)
        return not self.held or not doubtful

    @property
    def exit_code(self) -> int:
        """0 held, 1 not held, 2 cannot be judged."""
        return 1 if not self.held else 0 if self.conclusive else 2

    # ------------------------------------------------------------ in time

    @cached_property
    def days(self) -> list[Day]:
        """By the day (UTC) of the records' timestamps, the oldest first; what has no time comes last."""
        found: dict[int, Day] = {}
        for part in self.partitions:
            for (number, presence, cause), size in part.days.items():
                day = None if number < 0 else _EPOCH + timedelta(days=number)
                found.setdefault(number, Day(day)).add(presence, cause, size)
        full = [found[number] for number in sorted(found, key=lambda n: (n < 0, n))]
        return [day for day in full if day.expected or day.waiting]

    @property
    def oldest_gap(self) -> tuple[int, int, datetime | None] | None:
        """Partition, offset and time of the oldest record that the pipeline lost."""
        lost = [
            (time, part.partition, offset)
            for part in self.partitions
            for (_, cause), (offset, time) in part.earliest.items()
            if cause in LOSSES
        ]
        if not lost:
            return None
        time, partition, offset = min(lost)
        return partition, offset, _moment(time)

    @property
    def late_seconds(self) -> float:
        """How much older the oldest record that is waited for is than the newest of its partition."""
        late = [
            part.newest_ms - time
            for part in self.partitions
            for (_, cause), (_, time) in part.earliest.items()
            if cause is AbsenceCause.NOT_YET and 0 <= time <= part.newest_ms
        ]
        return max(late, default=0) / 1000

    # ------------------------------------------------------------ tables

    @property
    def ranges(self) -> DataFrame:
        """All ranges of offsets, with presence and cause."""
        rows = [
            (self.topic, r.partition, r.start, r.end, r.offsets, str(r.presence), r.cause and str(r.cause))
            for part in self.partitions
            for r in part.ranges
        ]
        return self.spark.createDataFrame(rows, RANGES)

    @property
    def absences(self) -> DataFrame:
        return self.ranges.filter("presence = 'absent'")

    @property
    def duplicates(self) -> DataFrame:
        return self.ranges.filter("presence = 'twice'")

    @property
    def completeness(self) -> DataFrame:
        """One row for each day."""
        rows = [
            (
                *(self.topic, d.day, d.expected, d.delivered, d.lost),
                *(d.twice, d.different, d.waiting, d.completeness),
            )
            for d in self.days
        ]
        return self.spark.createDataFrame(rows, DAYS)

    @property
    def accused_ranges(self) -> list[OffsetRange]:
        """Those that speak against the pipeline, by partition and offset."""
        return [each for part in self.partitions for each in part.accused]

    # ------------------------------------------------------------ JSON

    def as_object(self) -> dict[str, Any]:
        gap = self.oldest_gap
        return {
            "topic": self.topic,
            "source": self.source,
            "held": self.held,
            "conclusive": self.conclusive,
            "exit_code": self.exit_code,
            "offsets": self.offsets,
            "rows": self.rows,
            "rows_without_place": self.nowhere,
            "matched_by": "key" if self.by_key else "offset",
            "rows_of_unknown_keys": self.unknown_keys,
            "rows_of_earlier_topic": self.earlier_rows,
            "presence": {str(each): self.count(each) for each in Presence},
            "absent": {str(each): self.count(each) for each in AbsenceCause if self.count(each)},
            "lost": self.lost,
            "earlier_accused": self.earlier_accused,
            "oldest_gap": gap
            and {"partition": gap[0], "offset": gap[1], "time": gap[2] and gap[2].isoformat()},
            "late_seconds": self.late_seconds,
            "days": [_day(each) for each in self.days],
            "partitions": [
                {"partition": each.partition, "first": each.first, "end": each.end, "settled": each.settled}
                for each in self.partitions
            ],
            "accused": [_range(each) for each in self.accused_ranges[:_LISTED_MAX]],
            "problems": self.problems,
            "not_checked": list(map(say, self.not_checked)),
        }


def _moment(time_ms: int) -> datetime | None:
    return None if time_ms < 0 else datetime.fromtimestamp(time_ms / 1000, UTC)


def _day(day: Day) -> dict[str, Any]:
    return {
        "day": day.day and day.day.isoformat(),
        "expected": day.expected,
        "delivered": day.delivered,
        "lost": day.lost,
        "twice": day.twice,
        "different": day.different,
        "waiting": day.waiting,
        "completeness": day.completeness,
    }


def _range(found: OffsetRange) -> dict[str, Any]:
    return {
        "partition": found.partition,
        "start": found.start,
        "end": found.end,
        "presence": str(found.presence),
        "cause": found.cause and str(found.cause),
    }
