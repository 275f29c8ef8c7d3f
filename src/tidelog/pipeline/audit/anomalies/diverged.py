"""**Diverged**: replicas disagree at one offset.

Judged: every offset that two or more replicas hold; they agree if leader epoch, value and bytes are the same
and both or neither belong to the protocol. A replica that ends earlier, or has deleted more, disagrees with
nobody.

Severity: a violation below the committed end. Above it a notice: a follower that was away still holds what
its leader gave up, and drops it when it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, anomalies
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.final_log import ends
from tidelog.pipeline.audit.tables.stretches import PLACE, STRETCHES, spans_of_stretches, within
from tidelog.pipeline.audit.tables.sums import WHOLE_RECORD, replica_sums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COMPARED = [*PLACE, "broker", "offset", "leader_epoch", "control", "value", "value_crc32", "problem"]


def find(inputs: Inputs) -> DataFrame | None:
    from pyspark.sql import functions as f

    differing = inputs.summary(
        "held otherwise",
        lambda: (
            replica_sums(inputs)
            .where("records > 0")
            .groupBy(*STRETCHES)
            .agg(f.expr("min(record_sum) != max(record_sum) or min(records) != max(records)").alias("differ"))
            .where("differ")
            .select(*STRETCHES)
        ),
    )
    if differing.isEmpty():
        return None
    spans = spans_of_stretches(inputs, differing)
    found = (
        within(inputs.records_of(_COMPARED, spans=spans).where("problem is null"), differing)
        .withColumn("hash", f.expr(WHOLE_RECORD))
        .groupBy(*PLACE, "offset")
        .agg(
            f.expr("min(hash) != max(hash)").alias("differ"),
            f.array_sort(
                f.collect_list(f.struct("broker", "leader_epoch", "control", "value", "hash"))
            ).alias("held"),
        )
        .where("differ")
        .join(f.broadcast(ends(inputs).select(*PLACE, "end", "broker")), PLACE, "left")
        .withColumn("right", f.expr("try_element_at(filter(held, h -> h.broker = broker), 1)"))
        .withColumn("other", f.expr("try_element_at(filter(held, h -> not (h.hash <=> right.hash)), 1)"))
    )
    name = "case when h.control then 'control record' else coalesce(h.value, 'no value') end"
    return anomalies(
        found,
        "diverged",
        f.when(f.expr("coalesce(offset < end, true)"), VIOLATION).otherwise(NOTICE),
        value=f"array_join(array_distinct(transform(held, h -> {name})), ', ')",
        broker="other.broker",
        leader_epoch="other.leader_epoch",
        count="size(array_distinct(transform(held, h -> h.hash)))",
        detail=f"""array_join(transform(held, h -> concat('broker ', h.broker, ' holds ', {name},
            if(h.leader_epoch is null, '', concat(' of epoch ', h.leader_epoch)))), ', ')""",
    )
