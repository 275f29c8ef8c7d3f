"""**Inconsistent offset**: two values were reported at one offset.

Judged: who acknowledged a send named its offset, and whoever reads a record learns its offset; all that was
said about one offset of a partition must name the same value. Of two that differ at least one differs from
the final log, so only offsets are looked at where an acknowledgement or a read does. Severity: a violation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.anomalies import VIOLATION, anomalies
from tidelog.pipeline.audits.fates import suspects
from tidelog.pipeline.audits.final_log import PLACE
from tidelog.pipeline.audits.strays import strays
from tidelog.pipeline.inputs import READ, SENDS, Inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as f

    spot = [*PLACE, "offset"]
    doubtful = suspects(inputs).where("told_offset is not null and not (told_offset <=> first_offset)")
    offsets = doubtful.selectExpr(*PLACE, "told_offset as offset")
    reports = []
    if SENDS in inputs.facts:
        sends = inputs.ledger.where("outcome = 'ok' and offset is not null and value is not null")
        reports.append(
            sends.selectExpr(*spot, "value", "concat('told to ', producer) as who", "settled_us as at_us")
        )
    if READ in inputs.facts:
        offsets = offsets.unionByName(strays(inputs).select(*spot))
        read = inputs.reads.where("value is not null")
        reports.append(read.selectExpr(*spot, "value", "concat('read by ', consumer) as who", "read_us as at_us"))
    offsets = offsets.distinct()
    told = None
    for report in reports:
        near = report.join(offsets, spot, "left_semi").groupBy(*spot, "value", "who").agg(f.min("at_us").alias("at_us"))
        told = near if told is None else told.unionByName(near)
    if told is None:
        raise ValueError("nobody reported an offset")
    found = (
        told.groupBy(*spot, "value")
        .agg(f.min("at_us").alias("at_us"), f.array_sort(f.collect_set("who")).alias("whos"))
        .groupBy(*spot)
        .agg(f.array_sort(f.collect_list(f.struct("at_us", "value", "whos"))).alias("told"))
        .where("size(told) > 1")
    )
    return anomalies(
        found,
        "inconsistent offset",
        VIOLATION,
        value="array_join(transform(slice(told, 1, 10), t -> t.value), ', ')",
        time_us="element_at(told, 1).at_us",
        until_us="element_at(told, -1).at_us",
        count="size(told)",
        detail="""array_join(transform(slice(told, 1, 10), t ->
            concat(t.value, ' ', array_join(slice(t.whos, 1, 3), ', '))), '; ')""",
    )
