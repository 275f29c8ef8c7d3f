"""The records of a trial's segment files, as the evidence's table `records` has them, and a little more."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.pipeline.segments.columns import BY_NAME
from tidelog.pipeline.sources.finding import identified
from tidelog.pipeline.stored import Replica

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAMES: Final = {
    "broker": "broker",
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "leader_epoch": "leader_epoch",
    "control": "control",
    "key_text": "key",
    "value_id": "value",
    "value_bytes": "value_bytes",
    "value_crc32": "value_crc32",
    "timestamp_ms": "timestamp_ms",
    "producer_id": "producer_id",
    "producer_epoch": "producer_epoch",
    "producer_sequence": "producer_sequence",
    "batch_base_offset": "batch_base_offset",
    "problem": "problem",
}
"""Columns of the source, and what they are called in the table."""


NAMES: Final = tuple(_NAMES.values())


def evidence_records(
    spark: SparkSession,
    folder: Path,
    files: Sequence[str],
    columns: Sequence[str] = NAMES,
    wanted: Callable[[Replica], bool] = lambda replica: True,
) -> DataFrame:
    """One row for every record of these files, given relative to `folder`, and for every problem. Columns are
    named as in the table; `wanted` says whether a replica matters."""
    segments = [
        segment
        for segment in (identified(folder / file) for file in files)
        if segment.topic is None
        or segment.partition is None
        or segment.broker is None
        or wanted((segment.topic, segment.partition, segment.broker))
    ]
    listed = [
        {"file": str(s.path), "broker": s.broker, "topic": s.topic, "partition": s.partition}
        for s in segments
    ]
    chosen = {old: new for old, new in _NAMES.items() if new in columns}
    schema = ", ".join(f"{name} {BY_NAME[name].spark}" for name in chosen)
    if not segments:
        return spark.createDataFrame([], schema).withColumnsRenamed(chosen)
    found = spark.read.format("tidelog_log").schema(schema).option("segments", json.dumps(listed)).load()
    return found.withColumnsRenamed({old: new for old, new in chosen.items() if old != new})
