"""**Unseen**: acknowledged and in the log, but the final reader did not get it.

Judged: what the final log holds of acknowledged sends, against what the consumer read that went through every
partition once more at the end. Needs replica logs: without them that reader *is* the final log, and what it
did not get counts as lost. Unless it is known that nobody read to the end (an imported history): then unseen
is what was acknowledged behind the last record that anybody read, or without an offset, and never turned up.
Severity: a violation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import VIOLATION, anomalies, together
from tidelog.pipeline.audit.inputs import ABSENT, REPLICA_LOGS, Inputs
from tidelog.pipeline.audit.tables.fates import VALUE, of_kind, tally, with_sends
from tidelog.pipeline.audit.tables.final_log import committed_values, ends
from tidelog.pipeline.audit.tables.stretches import PLACE, STRETCHES, reader_sums, spans_of_stretches, within
from tidelog.pipeline.audit.tables.sums import final_sums
from tidelog.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    if REPLICA_LOGS not in inputs.facts and inputs.manifest.reads_to_end:
        raise PipelineError(ABSENT[REPLICA_LOGS])
    return together(
        _in_the_log(inputs) if REPLICA_LOGS in inputs.facts else None,
        None if inputs.manifest.reads_to_end else _behind_the_last(inputs),
    )


def _behind_the_last(inputs: Inputs) -> DataFrame | None:
    """Acknowledged, and nobody read that far."""
    if not tally(inputs)["lost"]:
        return None
    from pyspark.sql import functions as f

    read = inputs.reads.where("value is not null").select(*VALUE)
    absent = of_kind(inputs, "lost").select(*VALUE).join(read, VALUE, "left_anti")
    behind = (
        with_sends(inputs, absent)
        .join(f.broadcast(ends(inputs).select(*PLACE, "end")), PLACE)
        .where("coalesce(told_offset >= end, true)")
    )
    return anomalies(
        behind,
        "unseen",
        VIOLATION,
        offset="told_offset",
        detail="""if(told_offset is null, 'acknowledged without an offset, and nobody ever read it',
            'acknowledged behind the last record that anybody read')""",
    )


def _in_the_log(inputs: Inputs) -> DataFrame | None:
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
