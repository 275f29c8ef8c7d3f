"""**Precommitted read**: a consumer read a record before it was committed.

Judged: the last record of each poll, against the highest high watermark that any leader of the partition had
told by then. On real brokers moves of the watermark are told up to a quarter of a second late and clocks
differ, so a second is allowed for; and a broker that is killed takes its last moves with it, so polls around
the death of a broker are not judged. What the next leader may serve it knew as a follower: it says so when
it becomes leader. Besides, a transaction that read a value which it had sent itself: it
had not committed yet. Severity: a violation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import VIOLATION, anomalies, together
from tidelog.pipeline.audit.inputs import ABSENT, HAPPENINGS, Inputs
from tidelog.pipeline.audit.tables.stretches import PLACE
from tidelog.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    if HAPPENINGS not in inputs.facts:
        if not inputs.transactional:
            raise PipelineError(ABSENT[HAPPENINGS])
        inputs.lacks("reads above the high watermark", ABSENT[HAPPENINGS])
    return together(
        _above_the_watermark(inputs) if HAPPENINGS in inputs.facts else None,
        _its_own(inputs) if inputs.transactional else None,
    )


def _its_own(inputs: Inputs) -> DataFrame:
    """What a transaction read of itself."""
    from pyspark.sql import functions as f

    sent = inputs.ledger.where("transaction is not null and value is not null")
    read = inputs.reads.where("transaction is not null and value is not null")
    found = (
        read.join(sent.select(*PLACE, "value", "transaction"), [*PLACE, "value", "transaction"], "left_semi")
        .groupBy(*PLACE, "value", "transaction", "consumer")
        .agg(
            f.min("offset").alias("offset"),
            f.min("leader_epoch").alias("leader_epoch"),
            f.min("read_us").alias("time_us"),
        )
    )
    return anomalies(
        found,
        "precommitted read",
        VIOLATION,
        detail="concat(consumer, ' read it inside of ', transaction, ', which had sent it')",
    )


def _above_the_watermark(inputs: Inputs) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    polls = inputs.reads.groupBy(*PLACE, "consumer", "read_us").agg(f.max("offset").alias("offset"))
    # Watermarks come before reads of the same moment.
    line = polls.selectExpr(
        *PLACE,
        "consumer",
        "read_us",
        "offset",
        f"read_us + {inputs.slack_us} as at_us",
        "cast(null as bigint) as watermark",
        "false as moved",
    ).unionByName(
        inputs.events.where("event in ('high_watermark_advanced', 'became_leader')").selectExpr(
            *PLACE,
            "cast(null as string) as consumer",
            "cast(null as bigint) as read_us",
            "cast(null as bigint) as offset",
            "time_ms * 1000 as at_us",
            "greatest(high_watermark, previous_high_watermark) as watermark",
            "event = 'high_watermark_advanced' as moved",
        )
    )
    so_far = (
        Window.partitionBy(*PLACE)
        .orderBy("at_us", f.col("watermark").isNull())
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    early = (
        line.withColumn("committed", f.max("watermark").over(so_far))
        .withColumn("told", f.max("moved").over(Window.partitionBy(*PLACE)))
        .where("consumer is not null and told and offset >= coalesce(committed, 0)")
        .select(*PLACE, "consumer", "read_us", "offset", "committed")
    )
    deaths = inputs.faults.where("kind in ('kill', 'power') and began_us is not null").selectExpr(
        f"began_us - {2 * inputs.slack_us} as from_us", f"began_us + {2 * inputs.slack_us} as to_us"
    )
    judged = early.join(f.broadcast(deaths), f.expr("read_us between from_us and to_us"), "left_anti")
    read = inputs.reads.select(*PLACE, "consumer", "read_us", "offset", "value", "leader_epoch")
    return anomalies(
        read.join(judged, [*PLACE, "consumer", "read_us", "offset"]),
        "precommitted read",
        VIOLATION,
        time_us="read_us",
        detail="""concat(consumer, ' read it when the high watermark was ', coalesce(committed, 0))""",
    )
