"""The table's side: which offsets its rows have, once or more often, as bitmaps of stretches.

Every task folds its rows into bitmaps, a few bytes for each row at most; these are then brought together by
stretch, in as many tasks as the session has cores, and come back as one row for each stretch. No row is
joined with another, and nothing of the session is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.pipeline.errors import PipelineError, worker_failure
from tidelog.pipeline.reconcile import bits
from tidelog.pipeline.reconcile.bits import STRETCH, OffsetSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SCHEMA: Final = "partition int, stretch bigint, rows bigint, seen binary, twice binary"
_ARROW: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("stretch", pa.int64()),
        ("rows", pa.int64()),
        ("seen", pa.binary()),
        ("twice", pa.binary()),
    ]
)
_OPEN_MAX: Final = 512
"""Stretches that a task keeps open: 64 MB of bools."""
_BUFFERED_ROWS: Final = 1 << 18
_SHIFT: Final = 48
"""Partition and stretch as one number: no stretch is as large as this."""
_NOWHERE: Final = (-1, -1)
"""Under this place rows without a partition or an offset are counted."""


@dataclass(slots=True, frozen=True)
class Columns:
    """Names of the table's columns. Without `topic` all rows are the topic's; a given `value` is compared.
    With `key` rows are matched by it, and `partition` and `offset` are not looked at."""

    topic: str | None = "topic"
    partition: str = "partition"
    offset: str = "offset"
    value: str | None = None
    key: str | None = None

    def needed(self, table: DataFrame) -> list[str]:
        """Those that the table must have. One that is matched by key may lack a column `topic`."""
        places = [self.partition, self.offset] if self.key is None else [self.key]
        optional = self.key is not None and not _has(table.schema, self.topic or "")
        names = [None if optional else self.topic, *places, self.value]
        return [name for name in names if name is not None]


@dataclass(slots=True)
class PartitionRows:
    """`seen` are the offsets with a row, `twice` those with more than one, `rows` how many rows there are."""

    seen: OffsetSet = field(default_factory=OffsetSet)
    twice: OffsetSet = field(default_factory=OffsetSet)
    rows: int = 0

    def last(self) -> int | None:
        """The largest offset."""
        if not self.seen.stretches:
            return None
        stretch = max(self.seen.stretches)
        return stretch * STRETCH + int(np.flatnonzero(self.seen.members(stretch))[-1])


@dataclass(slots=True)
class TableRows:
    partitions: dict[int, PartitionRows] = field(default_factory=dict)
    nowhere: int = 0
    """Rows of the topic without a partition or an offset."""


def chosen(table: DataFrame, columns: Columns, topic: str, judged: Mapping[int, int]) -> DataFrame:
    """The rows of the topic, with the columns `partition`, `offset` and, if it is compared, `value`. Raises
    `PipelineError` if the table lacks a column."""
    from pyspark.sql import functions as F

    check_columns(table, columns)
    rows = of_topic(table, columns, topic)
    partition, offset = F.col(columns.partition), F.col(columns.offset)
    if judged:
        old = F.lit(False)
        for number, end in judged.items():
            old = old | ((partition == number) & (offset < end))
        # The first condition is for the file format, which skips what lies below it as a whole.
        rows = rows.filter((offset >= min(judged.values())) | offset.isNull()).filter(
            ~F.coalesce(old, F.lit(False))
        )
    wanted = [partition.try_cast("int").alias("partition"), offset.try_cast("bigint").alias("offset")]
    if columns.value is not None:
        wanted.append(F.col(columns.value).cast("binary").alias("value"))
    return rows.select(*wanted)


def check_columns(table: DataFrame, columns: Columns) -> None:
    """Raises `PipelineError` if the table lacks one."""
    for name in columns.needed(table):
        if not _has(table.schema, name):
            role = _role(columns, name)
            by_key = "" if role in {"key", "value"} else ", or match rows by key, --columns key=…"
            raise PipelineError(
                f"the table has no column {name}, only {', '.join(table.columns)}: "
                f"name the one to use, --columns {role}=… or {role}_column=…{by_key}"
            )


def of_topic(table: DataFrame, columns: Columns, topic: str) -> DataFrame:
    from pyspark.sql import functions as F

    there = columns.topic is not None and columns.topic in columns.needed(table)
    return table.filter(F.col(columns.topic or "") == topic) if there else table


def _has(schema: Any, name: str) -> bool:
    """Whether there is such a column; a dot leads into a struct."""
    if name in schema.names:
        return True
    outer, _, inner = name.partition(".")
    if not inner or outer not in schema.names:
        return False
    inside = schema[outer].dataType
    return hasattr(inside, "names") and _has(inside, inner)


def _role(columns: Columns, name: str) -> str:
    roles = ("key", "topic", "partition", "offset", "value")
    return next(role for role in roles if getattr(columns, role) == name)


def fold(rows: DataFrame, cores: int) -> TableRows:
    """Raises `PipelineError` if the table cannot be read."""
    try:
        partials = rows.select("partition", "offset").mapInArrow(fold_rows, _SCHEMA)
        merged = partials.repartition(cores, "partition", "stretch").mapInArrow(merge_partials, _SCHEMA)
        found = merged.collect()
    except PipelineError:
        raise
    except Exception as error:  # Spark's errors share no class: Java's, py4j's, gRPC's and its own
        raise PipelineError(worker_failure("the table cannot be read", error)) from None
    table = TableRows()
    for partition, stretch, count, seen, twice in found:
        if (partition, stretch) == _NOWHERE:
            table.nowhere += count
            continue
        own = table.partitions.setdefault(partition, PartitionRows())
        own.rows += count
        own.seen.stretches[stretch] = bytes(seen)
        if twice:
            own.twice.stretches[stretch] = bytes(twice)
    return table


# ---------------------------------------------------------------- in workers


class _Folding:
    """Bitmaps of several stretches while rows come in."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._rows: dict[tuple[int, int], int] = {}

    def nowhere(self, count: int) -> None:
        self._rows[_NOWHERE] = self._rows.get(_NOWHERE, 0) + count

    def _at(self, place: tuple[int, int]) -> tuple[Any, Any]:
        if place not in self._open:
            self._open[place] = (bits.empty(), bits.empty())
        return self._open[place]

    def add(self, place: tuple[int, int], positions: Any) -> None:
        seen, twice = self._at(place)
        counts = np.bincount(positions, minlength=STRETCH)
        twice |= (counts > 1) | (seen & (counts > 0))
        seen |= counts > 0
        self._rows[place] = self._rows.get(place, 0) + len(positions)

    def unite(self, place: tuple[int, int], count: int, other_seen: Any, other_twice: Any) -> None:
        seen, twice = self._at(place)
        twice |= other_twice | (seen & other_seen)
        seen |= other_seen
        self._rows[place] = self._rows.get(place, 0) + count

    @property
    def full(self) -> bool:
        return len(self._open) > _OPEN_MAX

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Everything so far; it is empty then."""
        places = list(self._rows)
        for begin in range(0, len(places), _OPEN_MAX):
            part = places[begin : begin + _OPEN_MAX]
            none = (bits.empty(), bits.empty())
            packed = [tuple(map(bits.pack, self._open.get(place, none))) for place in part]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([place[0] for place in part], pa.int32()),
                    pa.array([place[1] for place in part], pa.int64()),
                    pa.array([self._rows[place] for place in part], pa.int64()),
                    pa.array([seen for seen, _ in packed], pa.binary()),
                    pa.array([twice for _, twice in packed], pa.binary()),
                ],
                schema=_ARROW,
            )
        self._open.clear()
        self._rows.clear()


def fold_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of partition and offset become bitmaps."""
    folding = _Folding()
    for partitions, offsets in _buffered(batches, folding):
        keys = (partitions << _SHIFT) | (offsets // STRETCH)
        for key, positions in _grouped(keys, offsets % STRETCH):
            folding.add((key >> _SHIFT, key & ((1 << _SHIFT) - 1)), positions)
            if folding.full:
                yield from folding.batches()
    yield from folding.batches()


def _buffered(batches: Iterator[pa.RecordBatch], folding: _Folding) -> Iterator[tuple[Any, Any]]:
    """Many rows at once: a bitmap is touched as a whole for each group of rows."""
    parts: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        parts.append(batch)
        count += len(batch)
        if count >= _BUFFERED_ROWS:
            yield _numbers(parts, folding)
            parts, count = [], 0
    if parts:
        yield _numbers(parts, folding)


def _numbers(parts: list[pa.RecordBatch], folding: _Folding) -> tuple[Any, Any]:
    rows = pa.Table.from_batches(parts)
    whole = rows.drop_null()
    partitions = whole.column(0).to_numpy().astype(np.int64)
    offsets = whole.column(1).to_numpy()
    valid = (partitions >= 0) & (offsets >= 0)
    if lost := len(rows) - int(np.count_nonzero(valid)):
        folding.nowhere(lost)
    return partitions[valid], offsets[valid]


def _grouped(keys: Any, positions: Any) -> Iterator[tuple[int, Any]]:
    if not len(keys):
        return
    if keys[0] == keys[-1] and (keys == keys[0]).all():
        yield int(keys[0]), positions
        return
    order = np.argsort(keys, kind="stable")
    keys, positions = keys[order], positions[order]
    for start, end, key in bits.runs(keys):
        yield key, positions[start:end]


def merge_partials(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Bitmaps of the same stretch, wherever they were made, become one."""
    folding = _Folding()
    for batch in batches:
        for row in batch.to_pylist():
            place = (row["partition"], row["stretch"])
            if place == _NOWHERE:
                folding.nowhere(row["rows"])
            else:
                folding.unite(place, row["rows"], bits.unpack(row["seen"]), bits.unpack(row["twice"]))
    yield from folding.batches()
