"""The records of a trial's segment files, as the evidence's table `records` has them, and a little more.

`tidelog_log` reads the same files for everybody. Whoever knows beforehand what he needs comes this way:
Spark asks a Python source in four processes of their own before it reads anything, and this in none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.pipeline.audit.stored import Replica
from tidelog.pipeline.segments.columns import BY_NAME
from tidelog.pipeline.segments.reader import read_piece
from tidelog.pipeline.segments.rows import Segment
from tidelog.pipeline.sources.finding import identified
from tidelog.pipeline.sources.planning import Wanted, plan
from tidelog.pipeline.spark.small_tables import literal

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
    *,
    wanted: Callable[[Replica], bool] = lambda replica: True,
    offsets: range | None = None,
) -> DataFrame:
    """One row for every record of these files, given relative to `folder`, and for every problem. Columns are
    named as in the table; `wanted` says whether a replica matters, `offsets` which records do."""
    segments = [
        segment
        for segment in (identified(folder / file) for file in files)
        if segment.topic is None
        or segment.partition is None
        or segment.broker is None
        or wanted((segment.topic, segment.partition, segment.broker))
    ]
    chosen = {old: new for old, new in _NAMES.items() if new in columns}
    schema = ", ".join(f"`{new}` {BY_NAME[old].spark}" for old, new in chosen.items())
    pieces = plan(segments, Wanted(offsets=offsets))
    if not pieces:
        return literal(spark, [], schema)
    read = partial(_read, pieces, list(chosen), list(chosen.values()), offsets)
    return spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(read, schema)


def _read(
    pieces: list[list[Segment]],
    columns: list[str],
    names: list[str],
    offsets: range | None,
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for rows in read_piece(pieces[number], columns, offsets):
                yield pa.RecordBatch.from_arrays(rows.columns, names=names)
