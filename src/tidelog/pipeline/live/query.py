"""The streaming query: sightings, grouped by partition, each group with a memory of its own.

    sightings → (topic, partition) → Memory in the state store → findings

State is RocksDB's, kept with the checkpoint: a follower that goes on knows what was known. A partition's
state is one row of at most half a megabyte. (`transformWithState` would do as well. It asks one more Python
process at the beginning of each micro-batch, which takes longer than the batch and prints to the terminal.)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from tidelog.pipeline.live.findings import SPARK_SCHEMA, in_runs
from tidelog.pipeline.live.memory import Memory, Sightings, marked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_MAX: Final = 200_000
"""What a micro-batch takes at most: so much fits into memory, and is judged in some seconds."""
RECHECK: Final = 1_000
"""Offsets of a live topic that are read again before each new one."""
_MEMORY: Final = "first bigint, waits_for bigint, marks binary, notes string"
_FINDINGS_MAX: Final = 50
"""Of one anomaly, in one partition, in one micro-batch."""
_COLUMNS: Final = (
    *("topic", "partition", "offset", "hash", "has_value", "is_read", "position", "time_us", "who", "value"),
    *("ours", "dense"),
)
SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # The plan of a micro-batch is made anew each time: compiling it would take longer than carrying it out.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


def of_evidence(spark: SparkSession, folder: Path) -> DataFrame:
    rows = spark.readStream.format("tidelog_evidence").option("max_rows", str(ROWS_MAX)).load(str(folder))
    return rows.selectExpr(
        "*",
        "xxhash64(value, value_bytes, value_crc32) as hash",
        "value is not null as has_value",
        "false as ours",
        "false as dense",
    )


def of_topic(spark: SparkSession, options: dict[str, str], *, dense: bool, start: str) -> DataFrame:
    bounds = {"max_rows": str(ROWS_MAX), "recheck": str(RECHECK), "failOnDataLoss": "false"}
    source = spark.readStream.format("tidelog_topic").options(**options, **bounds, startingOffsets=start)
    rows = source.load()
    return rows.selectExpr(
        "topic",
        "partition",
        "offset",
        "xxhash64(key, value) as hash",
        "value is not null as has_value",
        "true as is_read",
        "cast(-1 as bigint) as position",
        "timestamp_ms * 1000 as time_us",
        "cast(null as string) as who",
        "value_id as value",
        "true as ours",
        f"{str(dense).lower()} as dense",
    )


def findings(sightings: DataFrame) -> DataFrame:
    """What contradicts itself, as it comes."""
    prepared = sightings.selectExpr(*_COLUMNS).na.fill({"position": -1, "time_us": 0})
    grouped: Any = prepared.groupBy("topic", "partition")
    found: DataFrame = grouped.applyInPandasWithState(_watch, SPARK_SCHEMA, _MEMORY, "append", "NoTimeout")
    return found


def _watch(key: Any, rows: Iterator[pd.DataFrame], kept: Any) -> Iterator[pd.DataFrame]:
    """One partition: its memory is taken from the store and put back."""
    topic, partition = str(key[0]), int(key[1])
    frame = pd.concat(list(rows), ignore_index=True)
    memory = Memory.unpack(*kept.get) if kept.exists else Memory()
    found = memory.see(_columns(frame), ours=bool(frame["ours"].iloc[0]), dense=bool(frame["dense"].iloc[0]))
    kept.update(memory.pack())
    if found:
        yield pd.DataFrame([finding.row(topic, partition) for finding in in_runs(found, _FINDINGS_MAX)])


def _columns(frame: pd.DataFrame) -> Sightings:
    def numbers(name: str) -> Any:
        return frame[name].to_numpy(np.int64)

    def texts(name: str) -> Any:
        column = frame[name].astype(object)
        return column.where(column.notna(), None).to_numpy()

    has_value, is_read = (frame[name].to_numpy(bool) for name in ("has_value", "is_read"))
    mark, position, time_us = marked(numbers("hash")), numbers("position"), numbers("time_us")
    return Sightings(
        numbers("offset"), mark, has_value, is_read, position, time_us, texts("who"), texts("value")
    )
