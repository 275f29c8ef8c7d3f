"""**Unseen**: acknowledged and in the log, but the final reader did not get it.

Judged: what the final log holds of acknowledged sends, against what the consumer read that went through every
partition once more at the end. Needs replica logs: without them that reader *is* the final log, and what it
did not get counts as lost. Severity: a violation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.anomalies import VIOLATION, anomalies
from tidelog.pipeline.audits.fates import VALUE
from tidelog.pipeline.audits.final_log import committed_values
from tidelog.pipeline.audits.stretches import PLACE, STRETCHES, reader_sums, spans_of_stretches, within
from tidelog.pipeline.audits.sums import final_sums
from tidelog.pipeline.inputs import Inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    from pyspark.sql import functions as f

    final = inputs.of_final_reader(inputs.reads)
    differing = inputs.summary(
        "unread",
        lambda: (
            final_sums(inputs)
            .alias("l")
            .join(inputs.of_final_reader(reader_sums(inputs)).alias("r"), STRETCHES, "left")
            .where("not (r.values <=> l.values and r.value_sum <=> l.value_sum)")
            .select(*STRETCHES)
        ),
    )
    if differing.isEmpty():
        return None
    spans = spans_of_stretches(inputs, differing)
    unread = (
        within(committed_values(inputs, spans), differing)
        .select(*PLACE, "offset", "leader_epoch", "value")
        .join(within(final, differing).select(*PLACE, "offset", "value"), [*VALUE, "offset"], "left_anti")
    )
    sends = inputs.ledger.where("outcome = 'ok' and value is not null").selectExpr(
        *VALUE, "producer", "sequence", "acks", "sent_us as time_us", "settled_us as until_us"
    )
    return anomalies(
        unread.join(sends, VALUE),
        "unseen",
        VIOLATION,
        consumer=f.lit(inputs.final_reader),
        detail="'acknowledged and in the log, and the final reader did not get it'",
    )
