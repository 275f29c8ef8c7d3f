"""Sums of stretches of a log, by which two logs are seen to be equal without laying them side by side.

A stretch is 4096 offsets. Its sum is how many records there are and the exclusive-or of a 64-bit hash of each
with its offset. Replicas that agree, and consumers that read what the log holds, have equal sums; only where
sums differ is the stretch looked at record by record. So what is right costs one pass and a small table, and
what is wrong costs as much as there is of it.

Rules of the file: sums are small and kept. Different sums are a suspicion, never a finding: a log that is
shorter than another, or a consumer that had not read everything, has different sums and nothing is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.pipeline.audits.final_log import PLACE, committed_values, ends
from tidelog.pipeline.inputs import REPLICA_LOGS, Inputs
from tidelog.pipeline.stored import Spans, spans_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STRETCH: Final = 4096
STRETCH_OF_OFFSET: Final = f"offset div {STRETCH} as stretch"
STRETCHES: Final = [*PLACE, "stretch"]
WHOLE_RECORD: Final = "xxhash64(offset, leader_epoch, control, value, value_crc32)"
_VALUE: Final = "xxhash64(offset, value)"
_SUMMED: Final = (*PLACE, "broker", "offset", "leader_epoch", "control", "value", "value_crc32")


def replica_sums(inputs: Inputs) -> DataFrame:
    """topic, partition, stretch, broker: records and record_sum of all, values and value_sum of what is
    committed and not of the protocol; problems, of which nothing but that is known."""
    return inputs.once("replica_sums", lambda: _replica_sums(inputs))


def _replica_sums(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as f

    limits = f.broadcast(ends(inputs).select(*PLACE, "start", "end"))
    return (
        inputs.records_of([*_SUMMED, "problem"])
        .join(limits, PLACE, "left")
        .selectExpr(
            *PLACE,
            "broker",
            STRETCH_OF_OFFSET,
            f"if(problem is null, {WHOLE_RECORD}, null) as record_hash",
            "problem",
            f"""if(coalesce(problem is null and not control and value is not null
                and offset >= start and offset < end, false), {_VALUE}, null) as value_hash""",
        )
        .groupBy(*STRETCHES, "broker")
        .agg(
            f.count("problem").alias("problems"),
            f.count("record_hash").alias("records"),
            f.expr("coalesce(bit_xor(record_hash), 0)").alias("record_sum"),
            f.count("value_hash").alias("values"),
            f.expr("coalesce(bit_xor(value_hash), 0)").alias("value_sum"),
        )
    )


def final_sums(inputs: Inputs) -> DataFrame:
    """topic, partition, stretch: values and value_sum of the final log."""
    from pyspark.sql import functions as f

    if REPLICA_LOGS not in inputs.facts:
        return inputs.once("final_sums", lambda: _summed(committed_values(inputs), []))
    limits = ends(inputs).select(*PLACE, "broker")
    of_replicas = replica_sums(inputs).join(f.broadcast(limits), [*PLACE, "broker"])
    columns = [*STRETCHES, "values", "value_sum"]
    return of_replicas.select(*columns).unionByName(
        _summed(
            committed_values(inputs).join(f.broadcast(limits.where("broker is null")), PLACE, "left_semi"), []
        ).select(*columns)
    )


def reader_sums(inputs: Inputs) -> DataFrame:
    """topic, partition, stretch, consumer: values and value_sum of what it read."""
    return inputs.once("reader_sums", lambda: _summed(inputs.reads, ["consumer"]))


def _summed(found: DataFrame, by: list[str]) -> DataFrame:
    from pyspark.sql import functions as f

    return (
        found.selectExpr(*PLACE, *by, STRETCH_OF_OFFSET, f"{_VALUE} as value_hash")
        .groupBy(*STRETCHES, *by)
        .agg(f.count("value_hash").alias("values"), f.expr("bit_xor(value_hash)").alias("value_sum"))
    )


def spans_of_stretches(inputs: Inputs, stretches: DataFrame) -> Spans | None:
    """The offsets in which these stretches lie, where it helps to know that beforehand."""
    if inputs.stored is None:
        return None
    return spans_of(stretches, f"stretch * {STRETCH}", f"(stretch + 1) * {STRETCH}")


def within(found: DataFrame, stretches: DataFrame, by: list[str] | None = None) -> DataFrame:
    """The rows of `found` that lie in one of the stretches."""
    keys = [*STRETCHES, *(by or [])]
    placed = found.selectExpr("*", STRETCH_OF_OFFSET)
    return placed.join(stretches.select(*keys).distinct(), keys, "left_semi").drop("stretch")
