"""What a consumer's polls say about its place in a partition: `position_before` is the offset it waited for,
so a read shows by itself whether the consumer was moved on or back.

A consumer that was told so (`out_of_range`: the log no longer has its place) moved by its own policy. That is
worth a notice; that the log was cut off behind it shows as lost and rewritten records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audits.stretches import PLACE, reader_sums
from tidelog.pipeline.inputs import Inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def moves(inputs: Inputs) -> dict[str, int]:
    """How many reads were not where their consumer waited: `on` behind it, `back` before it; and `unplaced`,
    of which nobody wrote down where it waited."""
    return inputs.counted(
        "moves",
        lambda: reader_sums(inputs).selectExpr(
            "sum(moved_on) as on", "sum(moved_back) as back", "sum(unplaced) as unplaced"
        ),
    )


def moved(inputs: Inputs, condition: str) -> DataFrame:
    """Reads that fulfil the condition, with `told`: whether the consumer knew that its place had vanished."""
    from pyspark.sql import functions as f

    vanished = (
        inputs.client_events.where("event = 'out_of_range'")
        .selectExpr("client as consumer", *PLACE, "offset as position_before", "time_us as told_us")
        .groupBy("consumer", *PLACE, "position_before")
        .agg(f.min("told_us").alias("told_us"))
    )
    return (
        inputs.reads.where("position_before is not null")
        .where(condition)
        .select(*PLACE, "consumer", "offset", "leader_epoch", "value", "read_us", "poll", "position_before")
        .join(f.broadcast(vanished), ["consumer", *PLACE, "position_before"], "left")
        .withColumn("told", f.expr("coalesce(told_us <= read_us, false)"))
    )
