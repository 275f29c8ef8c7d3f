"""Whether rows hold the bytes of their records: CRC-32s of both sides, brought together by stretch.

Only if a value column is named: both sides then travel once, ten bytes for each record. A null is a value of
its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.pipeline.errors import PipelineError, worker_failure
from tidelog.pipeline.reconcile import bits
from tidelog.pipeline.reconcile.bits import STRETCH, OffsetSet
from tidelog.pipeline.reconcile.table_side import PartitionRows
from tidelog.pipeline.reconcile.topic import PartitionLog, TopicLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA: Final = "of_topic boolean, partition int, stretch bigint, positions binary, crcs binary"
_ARROW: Final = pa.schema(
    [
        ("of_topic", pa.bool_()),
        ("partition", pa.int32()),
        ("stretch", pa.int64()),
        ("positions", pa.binary()),
        ("crcs", pa.binary()),
    ]
)
_COMPARED: Final = "partition int, offset bigint, value_crc32 bigint"
_FOUND: Final = "partition int, stretch bigint, different binary, same binary, same_twice binary"
_FOUND_ARROW: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("stretch", pa.int64()),
        ("different", pa.binary()),
        ("same", pa.binary()),
        ("same_twice", pa.binary()),
    ]
)
_POSITION, _CRC = np.dtype("<u2"), np.dtype("<i8")
_NULL: Final = -1
_STRETCHES_PER_TASK: Final = 64


@dataclass(slots=True)
class Compared:
    """Offsets of a partition where a row and its record differ. `same` and `same_twice`, of partitions that
    were asked for: where one row has the bytes of the record, and more than one."""

    different: OffsetSet = field(default_factory=OffsetSet)
    same: OffsetSet = field(default_factory=OffsetSet)
    same_twice: OffsetSet = field(default_factory=OffsetSet)

    def of_this_topic(self, rows: PartitionRows, log: PartitionLog) -> PartitionRows:
        """Of a topic that was created again: the rows without those that an earlier topic had there."""
        own = PartitionRows(rows=rows.rows)
        for stretch in rows.seen.stretches:
            elsewhere = ~log.records.members(stretch)
            for wanted, kept, same in (
                (own.seen, rows.seen, self.same),
                (own.twice, rows.twice, self.same_twice),
            ):
                wanted.put(stretch, (kept.members(stretch) & elsewhere) | same.members(stretch))
        return own


def compared(
    spark: SparkSession, rows: DataFrame, servers: str | None, log: TopicLog, recreated: Collection[int]
) -> dict[int, Compared]:
    """By partition. `recreated` are those whose topic was created again. Raises `PipelineError`."""
    source = topic_records(spark, servers, log, _COMPARED)
    stretches = sum(len(part.records.stretches) for part in log.partitions.values())
    tasks = max(2, -(-stretches // _STRETCHES_PER_TASK))
    left = source.mapInArrow(partial(_packed, True), _SCHEMA)
    right = rows.select("partition", "offset", "value").mapInArrow(partial(_packed, False), _SCHEMA)
    try:
        both = left.unionAll(right).repartition(tasks, "partition", "stretch")
        found = both.mapInArrow(partial(_compared, frozenset(recreated)), _FOUND).collect()
    except Exception as error:  # Spark's errors share no class: Java's, py4j's, gRPC's and its own
        raise PipelineError(worker_failure("the values cannot be compared", error)) from None
    by_partition: dict[int, Compared] = {}
    for partition, stretch, *packed in found:
        own = by_partition.setdefault(partition, Compared())
        for members, each in zip((own.different, own.same, own.same_twice), packed, strict=True):
            if each:
                members.stretches[stretch] = bytes(each)
    return by_partition


def topic_records(spark: SparkSession, servers: str | None, log: TopicLog, columns: str) -> DataFrame:
    """Columns of every record, those of aborted transactions included, by tidelog's own sources."""
    from tidelog.pipeline.sources import register

    register(spark)
    topic = log.topic
    if servers is not None:
        starts = {str(n): max(part.first, part.log_start) for n, part in log.partitions.items()}
        ends = {str(n): part.end for n, part in log.partitions.items()}
        reader = spark.read.format("tidelog_topic").option("kafka.bootstrap.servers", servers)
        reader = reader.option("subscribe", topic).option("kafka.isolation.level", "read_uncommitted")
        reader = reader.option("startingOffsets", json.dumps({topic: starts}))
        reader = reader.option("endingOffsets", json.dumps({topic: ends}))
        return reader.schema(columns).load()
    listed = [
        {"file": segment.path, "broker": segment.broker, "topic": topic, "partition": number}
        for number, part in log.partitions.items()
        for segment in part.segments
    ]
    reader = spark.read.format("tidelog_log").option("segments", json.dumps(listed))
    table = reader.schema(f"{columns}, control boolean").load()
    first = min((part.first for part in log.partitions.values()), default=0)
    return table.filter(f"offset >= {first} and not control").drop("control")


# ---------------------------------------------------------------- in workers


def _packed(of_topic: bool, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows by stretch: positions and CRCs as bytes."""
    for batch in batches:
        known = batch.filter(pa.compute.and_(batch.column(0).is_valid(), batch.column(1).is_valid()))
        partitions = known.column(0).to_numpy(zero_copy_only=False).astype(np.int64)
        offsets = known.column(1).to_numpy(zero_copy_only=False)
        crcs = _crcs(known.column(2), of_topic)
        order = np.lexsort((offsets, partitions))
        partitions, offsets, crcs = partitions[order], offsets[order], crcs[order]
        rows = [
            (
                of_topic,
                int(partitions[start]),
                key & ((1 << 48) - 1),
                (offsets[start:end] % STRETCH).astype(_POSITION).tobytes(),
                crcs[start:end].astype(_CRC).tobytes(),
            )
            for start, end, key in bits.runs((partitions << 48) | (offsets // STRETCH))
        ]
        columns = list(zip(*rows, strict=True)) or [()] * len(_ARROW)
        arrays = [pa.array(column, each.type) for column, each in zip(columns, _ARROW, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _crcs(column: Any, of_topic: bool) -> Any:
    if of_topic:
        return column.fill_null(_NULL).to_numpy(zero_copy_only=False)
    values = (None if value is None else value.as_buffer() for value in column)
    return np.array([_NULL if value is None else crc32(value) for value in values], np.int64)


def _compared(recreated: Collection[int], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows of a stretch are in one task: hold the table's against the topic's."""
    sides: dict[tuple[int, int], tuple[list[Any], list[Any]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            side = sides.setdefault((row["partition"], row["stretch"]), ([], []))
            pair = np.frombuffer(row["positions"], _POSITION), np.frombuffer(row["crcs"], _CRC)
            side[0 if row["of_topic"] else 1].append(pair)
    for (partition, stretch), (topic, table) in sides.items():
        different, same = _of_stretch(topic, table)
        if partition not in recreated:
            same = np.zeros(STRETCH, np.int64)
        if different.any() or same.any():
            packed = [bits.pack(each) for each in (different, same > 0, same > 1)]
            columns = [[value] for value in (partition, stretch, *packed)]
            yield pa.RecordBatch.from_arrays(
                [pa.array(column, each.type) for column, each in zip(columns, _FOUND_ARROW, strict=True)],
                schema=_FOUND_ARROW,
            )


def _of_stretch(topic: list[Any], table: list[Any]) -> tuple[Any, Any]:
    """Where a row differs from its record, and how many do not."""
    expected, there, different = np.zeros(STRETCH, np.int64), bits.empty(), bits.empty()
    same = np.zeros(STRETCH, np.int64)
    for positions, crcs in topic:
        expected[positions], there[positions] = crcs, True
    for positions, crcs in table:
        alike = expected[positions] == crcs
        different[positions[there[positions] & ~alike]] = True
        same += np.bincount(positions[there[positions] & alike], minlength=STRETCH)
    return different, same
