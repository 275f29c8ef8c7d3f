"""How much evidence there is, and which of it no audit can judge.

Rules of the file: only sums over producers, brokers and consumers come to the driver.
"""

from __future__ import annotations

from typing import Any

from tidelog.pipeline.audit.inputs import ALL_SENDS, FINAL_LOG, FINAL_READ, READ, REPLICA_LOGS, SENDS, Inputs
from tidelog.pipeline.audit.tables.fates import tally
from tidelog.pipeline.audit.tables.final_log import compacted_topics, ends
from tidelog.pipeline.audit.tables.polls import moves
from tidelog.pipeline.audit.tables.stretches import PLACE, reader_sums
from tidelog.pipeline.audit.tables.sums import replica_sums
from tidelog.pipeline.audit.tables.transactions import settle
from tidelog.pipeline.errors import first_line

_PROBLEMS_SHOWN = 20


def count_up(inputs: Inputs) -> dict[str, Any]:
    """Sends by outcome and by acks, records of each broker, reads of each consumer. A gap in a producer's
    numbers means that the ledger is not whole; a table that cannot be read is as good as absent. Both are
    noted."""
    totals: dict[str, Any] = {"sends": {}, "records": {}, "reads": {}}
    # Reads come first: where there is a final read, the end of a log may depend on it.
    for part, facts, count in (
        ("reads", {READ, FINAL_READ}, _count_reads),
        ("sends", {SENDS, ALL_SENDS}, _count_sends),
        ("records", {REPLICA_LOGS}, _count_records),
    ):
        if not facts & inputs.facts:
            continue
        try:
            totals[part] = count(inputs)
        except Exception as error:  # Spark's errors share no class
            inputs.release()
            inputs.facts -= facts
            inputs.lacks(part, first_line(error))
    if not {REPLICA_LOGS, FINAL_READ} & inputs.facts:
        inputs.facts.discard(FINAL_LOG)
    if inputs.transactional and totals["sends"].get("unknown"):
        settle(inputs)
    return totals


def _count_reads(inputs: Inputs) -> dict[str, int]:
    rows = reader_sums(inputs).groupBy("consumer").sum("values").collect()
    return dict(sorted(tuple(row) for row in rows))


def _count_records(inputs: Inputs) -> dict[str, int]:
    _note_damage(inputs)
    rows = replica_sums(inputs).groupBy("broker").sum("records").collect()
    return {str(broker): count for broker, count in sorted(tuple(row) for row in rows)}


def _note_damage(inputs: Inputs) -> None:
    """Replicas whose files cannot be read to their end are named, and no final log is made of them."""
    bad = replica_sums(inputs).where("problems > 0").select(*PLACE, "broker").distinct().collect()
    if not bad:
        return
    inputs.damaged = {(topic, partition, broker) for topic, partition, broker in bad}
    told = (
        inputs.records_of(["broker", *PLACE, "problem"], replicas=inputs.damaged)
        .where("problem is not null")
        .groupBy("broker", *PLACE, "problem")
        .agg({"*": "count"})
        .orderBy("broker", *PLACE)
        .limit(_PROBLEMS_SHOWN)
        .collect()
    )
    for broker, topic, partition, problem, _ in told:
        inputs.lacks(f"broker {broker}'s replica of {topic}-{partition}", problem)
    # What was computed so far may have taken such a replica for the truth.
    inputs.release()


def _count_sends(inputs: Inputs) -> dict[str, Any]:
    from pyspark.sql import functions as f

    rows = (
        inputs.ledger.groupBy("producer", "acks", "idempotent", "outcome")
        .agg(
            f.count("*").alias("count"),
            f.count("value").alias("values"),
            f.max("sequence").alias("last"),
            f.count("transaction").alias("transactional"),
        )
        .collect()
    )
    inputs.transactional = sum(row["transactional"] for row in rows)
    outcomes = dict.fromkeys(("ok", "failed", "unknown"), 0)
    by_acks: dict[str, dict[str, int]] = {}
    seen: dict[str, list[int]] = {}
    unnamed = 0
    for row in rows:
        outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + row["count"]
        acks = by_acks.setdefault("all" if row["acks"] == -1 else str(row["acks"]), {})
        acks[row["outcome"]] = acks.get(row["outcome"], 0) + row["count"]
        numbers = seen.setdefault(row["producer"], [0, -1])
        numbers[0] += row["count"]
        numbers[1] = max(numbers[1], -1 if row["last"] is None else row["last"])
        unnamed += row["count"] - row["values"]
    missing = {name: last + 1 - count for name, (count, last) in sorted(seen.items()) if last + 1 > count}
    if missing:
        inputs.facts.discard(ALL_SENDS)
        named = ", ".join(f"{name} ({count:,})" for name, count in list(missing.items())[:5])
        inputs.lacks(f"{sum(missing.values()):,} sends", f"the ledger has gaps in the numbers of {named}")
    if unnamed:
        inputs.lacks(f"{unnamed:,} sends without a value", "nothing tells them from each other")
    counted = {"total": sum(outcomes.values()), **outcomes, "by_acks": by_acks, "producers": len(seen)}
    if inputs.transactional:
        counted["in_transactions"] = inputs.transactional
    return counted


def name_what_is_not_judged(inputs: Inputs) -> None:
    """What the audits passed over, as far as the evidence has any of it."""
    if READ in inputs.facts and (unplaced := moves(inputs)["unplaced"]):
        inputs.lacks(f"the place of {unplaced:,} reads", "nobody wrote down what their consumer waited for")
    if FINAL_LOG not in inputs.facts or SENDS not in inputs.facts:
        return
    if repeated := tally(inputs)["repeated"]:
        inputs.lacks(f"{repeated:,} values that were sent more than once", "nothing tells their sends apart")
    for topic in compacted_topics(inputs):
        inputs.lacks(f"losses in {topic}", "it is compacted: records may go when their key is written again")
    begins = ends(inputs).where("start > 0").groupBy("topic").count().collect()
    for topic, partitions in sorted(tuple(row) for row in begins):
        inputs.lacks(
            f"records of {topic} below the start of its log, in {partitions} partitions", "they were deleted"
        )
    unknown = (
        inputs.ledger.select(*PLACE).distinct().join(ends(inputs).select(*PLACE), PLACE, "left_anti").count()
    )
    if unknown:
        inputs.lacks(f"what was sent to {unknown} partitions", "nothing shows what they hold at the end")
