"""Records out of segment files, as few as a question needs: some columns, some replicas, some offsets.

Decoding is what an audit spends most of its time on, and Spark tells a Python source neither which columns a
query uses nor which brokers a join will keep. So whoever knows says so here.

Rules of the file: what is left out is left out for speed only. Whoever asks applies his own conditions to
what he gets, and would be right without any of this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Place = tuple[str, int]
Replica = tuple[str, int, int]
"""Topic, partition, broker."""

SPANS_MAX: Final = 1000
"""Where more partitions than these are in question, it is the whole log that is."""


@dataclass(slots=True, frozen=True)
class Spans:
    """Some offsets of some partitions: `offsets` holds all of them, and possibly more."""

    places: frozenset[Place]
    offsets: range

    def holds(self, topic: str, partition: int) -> bool:
        return (topic, partition) in self.places


class Read(Protocol):
    """Columns of the records of those replicas that are wanted, and at least of these offsets."""

    def __call__(
        self, columns: Sequence[str], *, wanted: Callable[[Replica], bool], offsets: range | None
    ) -> DataFrame: ...


def some_records(
    read: Read, columns: Sequence[str], replicas: Collection[Replica] | None, spans: Spans | None
) -> DataFrame:
    def wanted(replica: Replica) -> bool:
        topic, partition, _ = replica
        return (replicas is None or replica in replicas) and (spans is None or spans.holds(topic, partition))

    return read(columns, wanted=wanted, offsets=None if spans is None else spans.offsets)


def inside(found: DataFrame, spans: Spans | None) -> DataFrame:
    """Rows that lie between the first and the last of these offsets."""
    if spans is None:
        return found
    return found.where(f"offset >= {spans.offsets.start} and offset < {spans.offsets.stop}")


def spans_of(found: DataFrame, first: str, behind: str) -> Spans | None:
    """Where rows with a topic and a partition lie, by the SQL for their first offset and the one behind the
    last; None: in so many partitions that it makes no difference."""
    from pyspark.sql import functions as f

    rows = (
        found.groupBy("topic", "partition")
        .agg(f.min(f.expr(first)).alias("first"), f.max(f.expr(behind)).alias("behind"))
        .limit(SPANS_MAX + 1)
        .collect()
    )
    if len(rows) > SPANS_MAX:
        return None
    return _joined((row["topic"], row["partition"], row["first"], row["behind"]) for row in rows)


def _joined(rows: Iterable[tuple[str, int, int | None, int | None]]) -> Spans | None:
    listed = list(rows)
    places = frozenset((topic, partition) for topic, partition, _, _ in listed)
    firsts = [first for _, _, first, _ in listed]
    behinds = [behind for _, _, _, behind in listed]
    if None in firsts or None in behinds:
        return None
    low = min((first for first in firsts if first is not None), default=0)
    high = max((behind for behind in behinds if behind is not None), default=0)
    return Spans(places, range(low, high))
