"""Reads that the final log does not confirm: a consumer read a value at an offset, and the log holds another
one there, or none.

Most consumers read exactly what the log holds, which their sums show; only the stretches in which they differ
are compared record by record. Reads below the start of the log are not judged: what they read was deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.fates import VALUE, few
from tidelog.pipeline.audit.tables.final_log import ends, final_log
from tidelog.pipeline.audit.tables.stretches import PLACE, STRETCHES, reader_sums, spans_of_stretches, within
from tidelog.pipeline.audit.tables.sums import final_sums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def strays(inputs: Inputs) -> DataFrame:
    """topic, partition, offset, value, leader_epoch, consumer, read_us (the first time), count; and what the
    log holds there: held, now, now_control, now_epoch."""
    return inputs.once("strays", lambda: _strays(inputs))


def strays_count(inputs: Inputs) -> int:
    if _differing(inputs).isEmpty():
        return 0
    return inputs.counted("strays", lambda: strays(inputs).selectExpr("count(*) as n"))["n"]


def with_value(inputs: Inputs) -> DataFrame:
    """The strays whose value can be recognised."""
    return strays(inputs).where("value is not null")


def sent_strays(inputs: Inputs) -> DataFrame:
    """The sends of their values."""
    values = few(with_value(inputs).select(*VALUE).distinct(), strays_count(inputs))
    return inputs.once(
        "sent strays",
        lambda: inputs.ledger.select(*VALUE, "producer", "sequence", "acks", "outcome", "error").join(
            values, VALUE, "left_semi"
        ),
    )


def _differing(inputs: Inputs) -> DataFrame:
    """Stretches in which a consumer did not read just what the log holds."""
    return inputs.summary(
        "read otherwise",
        lambda: (
            reader_sums(inputs)
            .alias("r")
            .join(final_sums(inputs).alias("l"), STRETCHES, "left")
            .where("not (r.values <=> l.values and r.value_sum <=> l.value_sum)")
            .select(*STRETCHES, "consumer")
        ),
    )


def _strays(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as f

    differing = _differing(inputs)
    limits = f.broadcast(ends(inputs).select(*PLACE, "start"))
    read = (
        within(inputs.reads, differing, ["consumer"])
        .join(limits, PLACE)
        .where("offset >= start")
        .groupBy(*PLACE, "offset", "value", "consumer")
        .agg(
            f.min("read_us").alias("read_us"),
            f.min("leader_epoch").alias("leader_epoch"),
            f.count("*").alias("count"),
        )
    )
    now = within(final_log(inputs, spans_of_stretches(inputs, differing)), differing).selectExpr(
        *PLACE,
        "offset",
        "true as held",
        "value as now",
        "control as now_control",
        "leader_epoch as now_epoch",
    )
    return (
        read.join(now, [*PLACE, "offset"], "left")
        .withColumn("held", f.coalesce("held", f.lit(False)))
        .where("not held or now_control or not (value <=> now)")
    )
