"""Why: each finding with its cause in words, from what brokers told and what was done to them.

`explain` adds three columns: `rule`, the short name of the cause by which findings can be counted; `cause`,
the story of this one; and `explained`. What nothing in the evidence accounts for is `unexplained`, a
category of its own that should stay rare: it is either a kind of failure that nobody has described yet, or
a mistake of the audit.

Rules of the folder: a cause is looked up in the partition's history (`history`), never guessed from the
kind of finding alone, and never read back from words; the words of narrate are put together in SQL
(`spelling`), so that they are made wherever the rows are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.pipeline.audit.causes import others, removal
from tidelog.pipeline.audit.causes.history import faults, history
from tidelog.pipeline.audit.causes.rules import UNEXPLAINED
from tidelog.pipeline.audit.findings import ANOMALIES
from tidelog.pipeline.audit.inputs import FINAL_LOG, REPLICA_LOGS, Inputs
from tidelog.pipeline.audit.tables.final_log import ends
from tidelog.pipeline.audit.tables.stretches import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXPLAINED: Final = f"{ANOMALIES}, cause string, rule string, explained boolean"
"""The columns of findings with their causes, as Spark's DDL."""
_REMOVED: Final = "'lost', 'rewritten', 'inconsistent offset'"


def explain(anomalies: DataFrame, inputs: Inputs) -> DataFrame:
    """Add `cause`, `rule` and `explained`."""
    from pyspark.sql import functions as f

    columns = anomalies.columns
    found = (
        _with_uncommitted(anomalies, inputs)
        .join(f.broadcast(inputs.summary("history", lambda: history(inputs))), PLACE, "left")
        .join(f.broadcast(inputs.summary("faults", lambda: faults(inputs))))
    )
    told = others.with_circumstances(removal.with_removal(found)).withColumn(
        "rule",
        f.expr(f"case when anomaly in ({_REMOVED}) then {removal.rule()} else {others.rule()} end"),
    )
    return (
        told.withColumn(
            "cause",
            f.expr(f"if(anomaly in ({_REMOVED}), {removal.words(inputs)}, {others.words(inputs)})"),
        )
        .withColumn("explained", f.col("rule").isNotNull())
        .withColumn("rule", f.coalesce("rule", f.lit(UNEXPLAINED)))
        .select(*columns, "cause", "rule", "explained")
    )


def _with_uncommitted(anomalies: DataFrame, inputs: Inputs) -> DataFrame:
    """Whether the leader does hold a lost record, above its high watermark."""
    from pyspark.sql import functions as f

    if FINAL_LOG not in inputs.facts or REPLICA_LOGS not in inputs.facts:
        return anomalies.withColumn("uncommitted", f.lit(False))
    tails = ends(inputs).where("broker is not null and log_end > end").select(*PLACE, "broker", "end")
    # Mostly there are none, and then no log has to be looked at.
    if not (longer := {(row["topic"], row["partition"], row["broker"]) for row in tails.collect()}):
        return anomalies.withColumn("uncommitted", f.lit(False))
    held = (
        inputs.records_of([*PLACE, "broker", "offset", "value", "problem"], replicas=longer)
        .where("problem is null")
        .join(f.broadcast(tails), [*PLACE, "broker"])
        .where("offset >= end and value is not null")
        .select(*PLACE, "value")
        .distinct()
        .withColumn("uncommitted", f.lit(True))
    )
    return anomalies.join(held, [*PLACE, "value"], "left").withColumn(
        "uncommitted", f.expr("coalesce(uncommitted and anomaly = 'lost', false)")
    )
