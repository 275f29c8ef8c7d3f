"""The records of a trial's segment files, as the evidence's table `records` has them, and a little more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.pipeline.segments.columns import BY_NAME
from tidelog.pipeline.sources.finding import identified

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


def evidence_records(spark: SparkSession, folder: Path, files: Sequence[str]) -> DataFrame:
    """One row for every record of these files, given relative to `folder`, and for every problem."""
    segments = [identified(folder / file) for file in files]
    listed = [
        {"file": str(s.path), "broker": s.broker, "topic": s.topic, "partition": s.partition}
        for s in segments
    ]
    schema = ", ".join(f"{name} {BY_NAME[name].spark}" for name in _NAMES)
    found = spark.read.format("tidelog_log").schema(schema).option("segments", json.dumps(listed)).load()
    return found.withColumnsRenamed({old: new for old, new in _NAMES.items() if old != new})
