"""A table without offsets, matched by key: one row for each key, as MERGE and upserting sinks keep it.

The topic says which record of a key is the last one; the row of the key stands for that record and gets its
partition and offset. From then on it is compared as any other row. Earlier records of the key are
*superseded*; where the last one is a tombstone, the table must not have a row.

Rules of the file: only committed records count, and of those the query has committed, if a checkpoint says
which. A key in several partitions (their number was changed) has its last record by timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.pipeline.errors import PipelineError, worker_failure
from tidelog.pipeline.reconcile import bits
from tidelog.pipeline.reconcile.bits import STRETCH, OffsetSet
from tidelog.pipeline.reconcile.compare import KeyFacts
from tidelog.pipeline.reconcile.table_side import Columns, PartitionRows, TableRows, fold, of_topic
from tidelog.pipeline.reconcile.topic import TopicLog
from tidelog.pipeline.reconcile.values import topic_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RECORDS: Final = "partition int, offset bigint, timestamp_ms bigint, key binary, value_crc32 bigint"


@dataclass(slots=True)
class LastRecords:
    """The last record of each key, as a DataFrame that is kept until `release`, and what follows of it."""

    frame: DataFrame
    facts: dict[int, KeyFacts] = field(default_factory=dict)

    def place(self, table: DataFrame, columns: Columns, topic: str) -> DataFrame:
        """Rows of a table with `partition` and `offset` of the last record of their key; null: of none."""
        from pyspark.sql import functions as F

        rows = of_topic(table, columns, topic)
        wanted = [_key_bytes(table, columns.key or "").alias("key")]
        if columns.value is not None:
            wanted.append(F.col(columns.value).cast("binary").alias("value"))
        placed = rows.select(*wanted).join(self.frame.select("key", "partition", "offset"), "key", "left")
        return placed.drop("key")

    def release(self) -> None:
        self.frame.unpersist()


def last_records(
    spark: SparkSession, servers: str | None, log: TopicLog, ends: Mapping[int, int], cores: int
) -> LastRecords:
    """`ends` is how far the query has committed, by partition. Raises `PipelineError`."""
    from pyspark.sql import functions as F

    limits = {number: ends.get(number, part.end) for number, part in log.partitions.items()}
    kept = {
        number: (range(part.log_start, part.stable_end), dict(part.aborted.stretches))
        for number, part in log.partitions.items()
    }
    records = topic_records(spark, servers, log, _RECORDS).mapInArrow(partial(_committed, kept), _RECORDS)
    within = F.lit(False)
    for number, end in limits.items():
        within = within | ((F.col("partition") == number) & (F.col("offset") < end))
    last = F.max(F.struct(within.alias("within"), "offset", "timestamp_ms", F.col("value_crc32").isNull()))
    per_partition = records.filter("key is not null").groupBy("key", "partition").agg(last.alias("last"))
    best = F.max(F.struct("last.within", "last.timestamp_ms", "last.offset", "partition", "last.col4"))
    frame = per_partition.groupBy("key").agg(best.alias("best"))
    frame = frame.selectExpr("key", "best.partition", "best.offset", "best.col4 as deleted").persist()
    try:
        latest = fold(frame, cores)
        deleted = fold(frame.filter("deleted"), cores)
        keyless = fold(records.filter("key is null"), cores)
    except PipelineError as error:
        frame.unpersist()
        raise PipelineError(worker_failure("the keys of the topic cannot be compared", error)) from None
    found = LastRecords(frame)
    for number, part in log.partitions.items():
        own, without = _seen(latest, number), _seen(keyless, number)
        superseded = _without(part.records, own, without, limits[number])
        found.facts[number] = KeyFacts(superseded, _seen(deleted, number), without)
    return found


def _seen(found: TableRows, number: int) -> OffsetSet:
    return found.partitions.get(number, PartitionRows()).seen


def _without(records: OffsetSet, latest: OffsetSet, keyless: OffsetSet, end: int) -> OffsetSet:
    """Records below the end that are not the last of their key."""
    left = OffsetSet()
    for stretch in records.stretches:
        members = records.members(stretch) & ~latest.members(stretch) & ~keyless.members(stretch)
        members[max(0, min(STRETCH, end - stretch * STRETCH)) :] = False
        left.put(stretch, members)
    return left


def _key_bytes(table: DataFrame, name: str) -> Any:
    """Keys as bytes: numbers and the like as their text, which is how most producers write them."""
    from pyspark.sql import functions as F

    kind = table.select(name).schema[0].dataType.typeName()
    column = F.col(name)
    return column if kind == "binary" else column.cast("string").cast("binary")


# ---------------------------------------------------------------- in workers


def _committed(
    kept: Mapping[int, tuple[range, Mapping[int, bytes]]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Leave out what readers of committed records do not get."""
    for batch in batches:
        partitions = batch.column(0).to_numpy(zero_copy_only=False)
        offsets = batch.column(1).to_numpy(zero_copy_only=False)
        wanted = np.ones(len(batch), bool)
        for number in np.unique(partitions).tolist():
            readable, aborted = kept[number]
            here = partitions == number
            wanted &= ~here | ((offsets >= readable.start) & (offsets < readable.stop))
            for stretch in set(np.unique(offsets[here] // STRETCH).tolist()) & set(aborted):
                inside = here & (offsets // STRETCH == stretch)
                wanted[inside] &= ~bits.unpack(aborted[stretch])[offsets[inside] % STRETCH]
        yield batch.filter(pa.array(wanted))
