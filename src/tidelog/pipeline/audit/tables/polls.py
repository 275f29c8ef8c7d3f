"""What a consumer's polls say about its place in a partition: `position_before` is the offset it waited for,
so a read shows by itself whether the consumer was moved on or back.

A consumer that was told so (`out_of_range`: the log no longer has its place) moved by its own policy. That is
worth a notice; that the log was cut off behind it shows as lost and rewritten records. So is the move of one
that belongs to a group and may have been moved by it (`rebalanced`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.pipeline.audit.findings import Circumstance
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.stretches import PLACE, reader_sums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_WHY: Final = """case when not told then ''
    when event = 'rebalanced' then ', and its group may have moved it'
    else ', after it had been told that its place is gone' end"""
_CIRCUMSTANCE: Final = f"if(told and event = 'rebalanced', '{Circumstance.MOVED_BY_GROUP}', null)"


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
    """Reads that fulfil the condition, with `told`: whether the consumer knew that its place had vanished or
    was taken from it; `why`, that in words, to be added to others; and `circumstance`."""
    from pyspark.sql import functions as f

    vanished = (
        inputs.client_events.where("event in ('out_of_range', 'rebalanced')")
        .selectExpr("client as consumer", *PLACE, "offset as position_before", "time_us as told_us", "event")
        .groupBy("consumer", *PLACE, "position_before")
        .agg(f.min("told_us").alias("told_us"), f.min_by("event", "told_us").alias("event"))
    )
    return (
        inputs.reads.where("position_before is not null")
        .where(condition)
        .select(*PLACE, "consumer", "offset", "leader_epoch", "value", "read_us", "poll", "position_before")
        .join(f.broadcast(vanished), ["consumer", *PLACE, "position_before"], "left")
        .withColumn("told", f.expr("coalesce(told_us <= read_us, false)"))
        .withColumn("why", f.expr(_WHY))
        .withColumn("circumstance", f.expr(_CIRCUMSTANCE))
    )
