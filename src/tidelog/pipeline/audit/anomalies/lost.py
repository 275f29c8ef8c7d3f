"""**Lost**: acknowledged, and not in the committed log at the end.

Judged: a send with the outcome `ok` whose value stands nowhere in the final log of its partition. Not judged
are sends whose offset lies below the start of the log (retention or DeleteRecords took them), those without
an offset where the log does not start at 0, topics that are compacted, and values that were sent twice. Of a
transaction in doubt all sends count as acknowledged once one of its values was seen: then it committed. Where
nobody read to the end, what was acknowledged behind the last record that was read is not lost but unseen.

Severity: a violation with `acks` 1 or all. With `acks=0` nobody promised anything: a notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, anomalies
from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.fates import of_kind, tally, with_sends
from tidelog.pipeline.audit.tables.final_log import compacted_topics, ends
from tidelog.pipeline.audit.tables.stretches import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    if not tally(inputs)["lost"]:
        return None
    from pyspark.sql import functions as f

    absent = of_kind(inputs, "lost")
    if compacted := compacted_topics(inputs):
        absent = absent.where(~f.col("topic").isin(compacted))
    lost = (
        with_sends(inputs, absent.select(*PLACE, "value"))
        .join(f.broadcast(ends(inputs).select(*PLACE, "start", "end")), PLACE)
        .where("coalesce(told_offset >= start, start = 0)")
    )
    if not inputs.manifest.reads_to_end:
        lost = lost.where("told_offset < end")
    return anomalies(
        lost,
        "lost",
        f.when(f.col("acks") == 0, NOTICE).otherwise(VIOLATION),
        offset="told_offset",
        detail="concat('acknowledged with acks=', if(acks = -1, 'all', cast(acks as string)))",
    )
