"""The sums of what replicas hold, of what producers were told, and of the final log, stretch by stretch. They
are small, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.pipeline.audit.inputs import FINAL_READ, REPLICA_LOGS, Inputs
from tidelog.pipeline.audit.tables.final_log import ends
from tidelog.pipeline.audit.tables.stretches import (
    CONTENT,
    PLACE,
    SPOT,
    STRETCH,
    STRETCH_OF_OFFSET,
    STRETCHES,
    hash_sum,
    reader_sums,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WHOLE_RECORD: Final = "xxhash64(offset, value, leader_epoch, control, value_crc32)"
_RECORD: Final = "xxhash64(spot, leader_epoch, control, value_crc32)"
_SUMMED: Final = (*PLACE, "broker", "offset", "leader_epoch", "control", "value", "value_crc32", "problem")
_FINAL: Final = ("values", "value_sum", "content_sum")


def replica_sums(inputs: Inputs) -> DataFrame:
    """topic, partition, stretch, broker: records and record_sum of all; values, value_sum and content_sum of
    what is committed and not of the protocol; problems, of which nothing but that is known."""
    return inputs.once("replica_sums", lambda: _replica_sums(inputs))


def _replica_sums(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as f

    limits = f.broadcast(ends(inputs).select(*PLACE, "start", "end"))
    return (
        inputs.records_of(_SUMMED)
        .join(limits, PLACE, "left")
        .selectExpr("*", STRETCH_OF_OFFSET, SPOT)
        .selectExpr(
            *STRETCHES,
            "broker",
            "problem",
            f"if(problem is null, {_RECORD}, null) as record",
            "coalesce(problem is null and not control and offset >= start and offset < end, false) as counts",
            "spot",
            f"{CONTENT} as content",
        )
        .groupBy(*STRETCHES, "broker")
        .agg(
            f.count("problem").alias("problems"),
            f.count("record").alias("records"),
            f.expr(hash_sum("record")).alias("record_sum"),
            f.expr("count_if(counts)").alias("values"),
            f.expr(hash_sum("if(counts, spot, null)")).alias("value_sum"),
            f.expr(hash_sum("if(counts, content, null)")).alias("content_sum"),
        )
    )


def ledger_sums(inputs: Inputs) -> DataFrame:
    """topic, partition, stretch: values and content_sum of the sends that were told to stand there, in what
    is committed. Sends of which nobody said that are in a stretch of their own, which is null."""
    return inputs.once("ledger_sums", lambda: _ledger_sums(inputs))


def _ledger_sums(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as f

    return (
        placed_sends(inputs)
        .selectExpr(*PLACE, "told", f"if(told, offset div {STRETCH}, null) as stretch", SPOT, "value_crc32")
        .groupBy(*STRETCHES)
        .agg(
            f.count("*").alias("values"), f.expr(hash_sum(f"if(told, {CONTENT}, null)")).alias("content_sum")
        )
    )


def placed_sends(inputs: Inputs) -> DataFrame:
    """Sends with a value to partitions whose end is known, with `told`: whether it was acknowledged with an
    offset that is committed."""
    from pyspark.sql import functions as f

    return (
        inputs.ledger.where("value is not null")
        .join(f.broadcast(ends(inputs).select(*PLACE, "start", "end")), PLACE)
        .selectExpr("*", "coalesce(outcome = 'ok' and offset >= start and offset < end, false) as told")
    )


def final_sums(inputs: Inputs) -> DataFrame:
    """topic, partition, stretch: values, value_sum and content_sum of the final log."""
    from pyspark.sql import functions as f

    limits = ends(inputs).select(*PLACE, "broker")
    parts = []
    if REPLICA_LOGS in inputs.facts:
        parts.append(replica_sums(inputs).join(f.broadcast(limits), [*PLACE, "broker"]).where("values > 0"))
    if FINAL_READ in inputs.facts:
        unseen = f.broadcast(limits.where("broker is null"))
        parts.append(inputs.of_final_reader(reader_sums(inputs)).join(unseen, PLACE, "left_semi"))
    found = parts[0].select(*STRETCHES, *_FINAL)
    for part in parts[1:]:
        found = found.unionByName(part.select(*STRETCHES, *_FINAL))
    return found
