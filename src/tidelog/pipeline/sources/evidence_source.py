"""`tidelog_evidence`: what clients of a trial heard and read, as a stream, while the trial goes on.

    spark.readStream.format("tidelog_evidence").load("trial-1")

One row is one *sighting*: a client says which value is at an offset. A producer says so of a send that
was acknowledged, a consumer of a record that it read, with the offset that it had waited for.

`max_rows` bounds a micro-batch. What it reads is determined by counts of rows alone
(`tidelog.evidence.parquet.growing`), so it can be read again after a crash and is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidelog.evidence.parquet.growing import Growth, Position, limited, rows_between
from tidelog.evidence.tables import LEDGER
from tidelog.pipeline.errors import PipelineError

SPARK_SCHEMA: Final = (
    "topic string, partition int, offset bigint, value string, value_bytes int, value_crc32 bigint, "
    "who string, is_read boolean, position bigint, time_us bigint"
)
_ARROW: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.string()),
        ("value_bytes", pa.int32()),
        ("value_crc32", pa.int64()),
        ("who", pa.string()),
        ("is_read", pa.bool_()),
        ("position", pa.int64()),
        ("time_us", pa.int64()),
    ]
)
_SAME: Final = ["topic", "partition", "offset", "value", "value_bytes", "value_crc32"]
_LEDGER: Final = [*_SAME, "producer", "settled_us", "outcome"]
_READS: Final = [*_SAME, "consumer", "position_before", "read_us"]


class EvidenceSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "tidelog_evidence"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if "path" not in self.options:
            raise PipelineError("tidelog_evidence needs a path: the folder that a trial writes")
        rows_max = self.options.get("max_rows")
        return _Reader(Path(self.options["path"]), int(rows_max) if rows_max else None)


class _Rows(InputPartition):
    """Rows of one journal, `end` exclusive."""

    def __init__(self, name: str, start: int, end: int) -> None:
        super().__init__(None)
        self.name, self.start, self.end = name, start, end


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, folder: Path, rows_max: int | None) -> None:
        self._folder = folder
        self._rows_max = rows_max
        self._growth = Growth(folder)
        self._last: Position | None = None
        """Where a query that takes what there is now, and no more, will stop."""

    def initialOffset(self) -> Position:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._rows_max is None else ReadMaxRows(self._rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._growth.position()

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:
        latest = self._last if self._last is not None else self._growth.position()
        # A journal that cannot be looked at for a moment has not gone back.
        latest = {name: max(latest.get(name, 0), start.get(name, 0)) for name in {**start, **latest}}
        reached = limited(start, latest, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        return {name: rows for name, rows in sorted(reached.items()) if rows}

    def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
        return [
            _Rows(name, start.get(name, 0), rows) for name, rows in end.items() if rows > start.get(name, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, _Rows):  # where there is nothing to read, Spark makes up one of its own
            yield from sightings(self._folder, partition.name, partition.start, partition.end)


def sightings(folder: Path, name: str, start: int, end: int) -> Iterator[Any]:
    """What these rows of a journal say, in Arrow batches."""
    is_send = name.startswith(f"{LEDGER.name}/")
    try:
        rows = rows_between(folder, name, start, end, _LEDGER if is_send else _READS)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"{folder}: {name} cannot be read: {' '.join(str(error).split())}") from None
    if is_send:
        known = pc.and_(pc.equal(rows["outcome"], "ok"), pc.is_valid(rows["offset"]))
        rows = rows.filter(known)
        who, position, time = rows["producer"], pa.nulls(len(rows), pa.int64()), rows["settled_us"]
    else:
        who, position, time = rows["consumer"], rows["position_before"], rows["read_us"]
    told = [*(rows[column] for column in _SAME), who, pa.repeat(not is_send, len(rows)), position, time]
    yield from pa.Table.from_arrays([_whole(column) for column in told], schema=_ARROW).to_batches()


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
