"""**Poll skip**: a consumer was moved on past records that are there.

Judged: a read whose offset lies behind the one that its consumer waited for, if the final log holds records
of producers in between. Control records and what retention or compaction took are no skip. Across polls and
inside one alike.

Severity: a violation; a notice if the consumer had been told that its place no longer exists, or if it is
known to belong to a group that may have moved it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, anomalies
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.final_log import committed_values
from tidelog.pipeline.audit.tables.polls import moved, moves
from tidelog.pipeline.audit.tables.stretches import PLACE, STRETCH, STRETCHES, spans_of_stretches, within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    if not moves(inputs)["on"]:
        return None
    from pyspark.sql import functions as f

    jumps = (
        moved(inputs, "offset > position_before")
        .withColumnRenamed("offset", "landed")
        .drop("value", "leader_epoch")
        .withColumn(
            "stretch",
            f.expr(f"explode(sequence(position_before div {STRETCH}, (landed - 1) div {STRETCH}))"),
        )
    )
    passed = (
        within(committed_values(inputs, spans_of_stretches(inputs, jumps)), jumps)
        .selectExpr(*PLACE, "offset", "value", "leader_epoch", f"offset div {STRETCH} as stretch")
        .join(jumps, STRETCHES)
        .where("offset >= position_before and offset < landed")
        .groupBy(
            *PLACE, "consumer", "poll", "position_before", "landed", "read_us", "told", "why", "circumstance"
        )
        .agg(
            f.min(f.struct("offset", "value", "leader_epoch")).alias("first"),
            f.count("*").alias("count"),
        )
    )
    return anomalies(
        passed.select("*", "first.*"),
        "poll skip",
        f.when(f.col("told"), NOTICE).otherwise(VIOLATION),
        time_us="read_us",
        detail="""concat(consumer, ' waited for offset ', position_before, ' and was given ', landed, why)""",
    )
