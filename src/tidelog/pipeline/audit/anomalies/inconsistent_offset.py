"""**Inconsistent offset**: two values were reported at one offset.

Judged: who acknowledged a send named its offset, and whoever reads a record learns its offset; all that was
said about one offset of a partition must name the same value. Of two that differ at least one differs from
the final log, so only offsets are looked at where an acknowledgement or a read does. Severity: a violation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.findings import VIOLATION, anomalies
from tidelog.pipeline.audit.inputs import READ, Inputs
from tidelog.pipeline.audit.tables.fates import of_kind, tally
from tidelog.pipeline.audit.tables.strays import strays, strays_count
from tidelog.pipeline.audit.tables.stretches import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(inputs: Inputs) -> DataFrame | None:
    from pyspark.sql import functions as f

    has_reads = READ in inputs.facts
    if not tally(inputs)["misplaced"] and not (has_reads and strays_count(inputs)):
        return None
    spot = [*PLACE, "offset"]
    offsets = of_kind(inputs, "misplaced").selectExpr(*PLACE, "told_offset as offset")
    sends = inputs.ledger.where("outcome = 'ok' and offset is not null and value is not null")
    reports = [sends.selectExpr(*spot, "value", "concat('told to ', producer) as who", "settled_us as at_us")]
    if has_reads:
        offsets = offsets.unionByName(strays(inputs).select(*spot))
        read = inputs.reads.where("value is not null")
        if not inputs.manifest.reads_to_end:  # what everybody read is no word of its own
            read = read.where(f.col("consumer") != inputs.final_reader)
        reports.append(
            read.selectExpr(*spot, "value", "concat('read by ', consumer) as who", "read_us as at_us")
        )
    told = reports[0].join(offsets, spot, "left_semi")
    for report in reports[1:]:
        told = told.unionByName(report.join(offsets, spot, "left_semi"))
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
        time_us="try_element_at(told, 1).at_us",
        until_us="try_element_at(told, -1).at_us",
        count="size(told)",
        detail="""array_join(transform(slice(told, 1, 10), t ->
            concat(t.value, ' ', array_join(slice(t.whos, 1, 3), ', '))), '; ')""",
    )
