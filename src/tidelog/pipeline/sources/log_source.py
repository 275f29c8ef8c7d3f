"""`tidelog_log`: the segment files of replicas as a table, one row for every record of every replica.

    spark.read.format("tidelog_log").load("evidence/cluster")
    spark.read.format("tidelog_log").schema("offset long, value binary").load("/var/lib/kafka/data")

Options: `path` (see `finding`), or `segments`, a JSON list of objects with `file`, `broker`, `topic` and
`partition`. Columns are those of `tidelog.pipeline.segments.columns`; a schema of the reader's own chooses
among them, and what it leaves out is never decoded. Conditions on broker, topic, partition and offset choose
what is read at all; Spark applies them once more to the rows.

A path is one of this machine or an address (`file:`, `s3a:`, `hdfs:`, …), and must be reachable wherever
Spark's workers run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.files import Place
from tidelog.pipeline.segments.columns import BY_NAME, SPARK_SCHEMA, arrow_schema
from tidelog.pipeline.segments.reader import read_piece
from tidelog.pipeline.segments.rows import SegmentFile
from tidelog.pipeline.sources.finding import find_segments
from tidelog.pipeline.sources.planning import OFFSET_END, ReadPlan, plan


class LogSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "tidelog_log"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        columns = chosen_columns(schema, self.name())
        return _LogReader(_segments(self.options), columns)


def _segments(options: Mapping[str, str]) -> list[SegmentFile]:
    if listed := options.get("segments"):
        try:
            return [
                SegmentFile(
                    *Place.of(each["file"]).parted(), each["broker"], each["topic"], each["partition"]
                )
                for each in json.loads(listed)
            ]
        except (ValueError, TypeError, KeyError):
            raise PipelineError(
                "segments must be a JSON list of objects with file, broker, topic and partition"
            ) from None
    paths = [options["path"]] if options.get("path") else json.loads(options.get("paths", "[]"))
    if not paths:
        raise PipelineError("tidelog_log needs a path: a broker's data folder, or an evidence folder")
    return [segment for path in paths for segment in find_segments(path)]


class _Piece(InputPartition):
    """What one task reads."""

    def __init__(self, segments: list[SegmentFile]) -> None:
        super().__init__(None)
        self.segments = segments


class _LogReader(DataSourceReader):
    def __init__(self, segments: list[SegmentFile], columns: list[str]) -> None:
        self._segments = segments
        self._columns = columns
        self._wanted = ReadPlan()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """They only spare work: all are handed back, so that Spark holds every row to them."""
        self._wanted = ReadPlan(
            brokers=_values("broker", filters),
            topics=_values("topic", filters),
            partitions=_values("partition", filters),
            offsets=_offsets(filters),
        )
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        return [_Piece(segments) for segments in plan(self._segments, self._wanted)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Spark fails on a task that gives nothing at all, not even an empty batch.
        yield pa.RecordBatch.from_pylist([], schema=arrow_schema(self._columns))
        # Where there is nothing to read, Spark makes up a partition of its own.
        if isinstance(partition, _Piece):
            yield from read_piece(partition.segments, self._columns, self._wanted.offsets)


# ---------------------------------------------------------------- what conditions mean


def _values(column: str, filters: Sequence[Filter]) -> frozenset[Any] | None:
    """The values that a column may have; None: any."""
    found: frozenset[Any] | None = None
    for each in filters:
        match each:
            case EqualTo((name,), value) | EqualNullSafe((name,), value) if name == column:
                allowed = frozenset([value])
            case In((name,), values) if name == column:
                allowed = frozenset(values)
            case _:
                continue
        found = allowed if found is None else found & allowed
    return found


def _offsets(filters: Sequence[Filter]) -> range | None:
    """The offsets that may be asked for; None: any."""
    low, high, bounded = 0, OFFSET_END, False
    for each in filters:
        match each:
            case EqualTo(("offset",), int(value)):
                least, behind = value, value + 1
            case In(("offset",), values) if values and all(isinstance(value, int) for value in values):
                least, behind = min(values), max(values) + 1
            case GreaterThan(("offset",), int(value)):
                least, behind = value + 1, OFFSET_END
            case GreaterThanOrEqual(("offset",), int(value)):
                least, behind = value, OFFSET_END
            case LessThan(("offset",), int(value)):
                least, behind = 0, value
            case LessThanOrEqual(("offset",), int(value)):
                least, behind = 0, value + 1
            case _:
                continue
        bounded = True
        low, high = max(low, least), min(high, behind)
    return range(low, max(low, high)) if bounded else None


def chosen_columns(schema: StructType, source: str, known: tuple[str, ...] = tuple(BY_NAME)) -> list[str]:
    """The names of the schema's columns, in its order; `PipelineError` for one that cannot be given."""
    for field in schema.fields:
        if field.name not in known:
            raise PipelineError(f"{source} has no column {field.name}; it has {', '.join(known)}")
        own, asked = BY_NAME[field.name].spark, field.dataType.simpleString()
        if asked != own:
            raise PipelineError(f"the column {field.name} of {source} is {own}, not {asked}")
    return list(schema.names)
