"""The committed log at the end: what everything else is held against.

Per partition it is the leader's log below its high watermark. Without a leader nothing can be read, but
nothing is lost either as long as a member of the ISR, which alone may lead again, still holds it: then it is
the longest log of a member. Where no replica can be seen (a foreign Kafka) it is what the final reader read.

Rules of the file: `ends` is one small row per partition; whoever needs records filters them by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.pipeline.audit.inputs import FINAL_READ, REPLICA_LOGS, Inputs
from tidelog.pipeline.audit.stored import Spans, inside
from tidelog.pipeline.audit.tables.stretches import PLACE, reader_sums
from tidelog.pipeline.spark.small_tables import literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def ends(inputs: Inputs) -> DataFrame:
    """topic, partition, broker whose log counts (null: the final reader's), start and end
    (exclusive), and log_end, how far that log goes beyond."""
    return inputs.summary("ends", lambda: _ends(inputs))


def _ends(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as f

    told = _told_ends(inputs)
    found = None
    if REPLICA_LOGS in inputs.facts:
        replicas = (
            _undamaged(inputs)
            .groupBy(*PLACE, "broker")
            .agg(
                f.max("log_start_offset").alias("start"),
                f.max("log_end_offset").alias("log_end"),
                f.max("high_watermark").alias("high_watermark"),
                f.max("leader").alias("leader"),
                f.first("isr", ignorenulls=True).alias("isr"),
                f.expr("coalesce(max(role) = 'leader', true)").alias("in_office"),
            )
        )
        # The leader first, whose watermark counts unless it does not know yet that it leads; without one the
        # longest log of a member of the ISR, the smallest id of equals.
        # Where nobody knew leader and ISR (the trial was killed), whoever has the highest watermark.
        order = "struct(leads, if(isr is null, high_watermark, log_end), log_end, -broker)"
        found = (
            replicas.withColumn("leads", f.expr("coalesce(leader = broker, false)"))
            .where("leads or isr is null or array_contains(isr, broker)")
            .groupBy(*PLACE)
            .agg(
                f.expr(
                    "max_by(struct(broker, start, log_end, high_watermark, leads and in_office as leads, isr)"
                    f", {order})"
                ).alias("chosen")
            )
            .select(*PLACE, "chosen.*")
            .join(f.broadcast(told), PLACE, "left")
            .selectExpr(
                *PLACE,
                "broker",
                "coalesce(start, 0) as start",
                # A committed end that a client was told before the cluster stopped is at least as new.
                "if(leads or isr is null, least(greatest(coalesce(high_watermark, 0), "
                "coalesce(told_end, 0)), log_end), least(log_end, told_end)) as end",
                "log_end",
            )
        )
    if FINAL_READ in inputs.facts:
        read = (
            inputs.of_final_reader(reader_sums(inputs))
            .groupBy(*PLACE)
            .agg(f.min("first").alias("first"), f.max("last").alias("last"))
            .join(told, PLACE, "full_outer")
            .selectExpr(
                *PLACE,
                "cast(null as int) as broker",
                "coalesce(told_start, first, 0) as start",
                "greatest(coalesce(last + 1, 0), coalesce(told_end, 0)) as end",
                "cast(null as bigint) as log_end",
            )
        )
        found = read if found is None else found.unionByName(read.join(found, PLACE, "left_anti"))
    if found is None:
        raise ValueError("ends of logs were asked for, but nothing shows them")
    return found


def _undamaged(inputs: Inputs) -> DataFrame:
    if not inputs.damaged:
        return inputs.replicas
    damaged = literal(inputs.spark, sorted(inputs.damaged), "topic string, partition int, broker int")
    return inputs.replicas.join(damaged, [*PLACE, "broker"], "left_anti")


def _told_ends(inputs: Inputs) -> DataFrame:
    """The committed ends that the trial asked for before it stopped the cluster, and starts where somebody
    knows them better than by the first record that was read."""
    rows = [
        (topic["name"], int(partition), dict(topic.get("starts") or {}).get(partition), int(end))
        for topic in inputs.manifest.topics
        for partition, end in dict(topic.get("ends") or {}).items()
        if end is not None
    ]
    return literal(inputs.spark, rows, "topic string, partition int, told_start bigint, told_end bigint")


def final_log(inputs: Inputs, spans: Spans | None = None, *, with_producers: bool = False) -> DataFrame:
    """One row for every committed record: topic, partition, offset, leader_epoch, control, value, crc, and
    who produced it where the log tells. With `spans`, those there; others may come along."""
    return _final_log(inputs, spans, _PRODUCERS if with_producers else {})


def _final_log(inputs: Inputs, spans: Spans | None, producers: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions as f

    limits = f.broadcast(ends(inputs))
    columns = [*PLACE, "offset", "leader_epoch", "control", "value", "value_crc32"]
    found = None
    if REPLICA_LOGS in inputs.facts:
        chosen = None
        if inputs.stored is not None:
            chosen = {
                (topic, partition, broker)
                for topic, partition, broker in ends(inputs).select(*PLACE, "broker").collect()
            }
        found = (
            inputs.records_of([*columns, *producers, "broker", "problem"], replicas=chosen, spans=spans)
            .where("problem is null")
            .join(limits, [*PLACE, "broker"])
            .where("offset >= start and offset < end")
            .select(*columns, *producers)
        )
    if FINAL_READ in inputs.facts:
        unseen = [f.lit(None).cast(kind).alias(name) for name, kind in producers.items()]
        read = (
            inside(inputs.of_final_reader(inputs.reads), spans)
            .join(limits.where("broker is null"), PLACE)
            .withColumn("control", f.lit(False))
            .select(*columns, *unseen)
        )
        found = read if found is None else found.unionByName(read)
    if found is None:
        raise ValueError("the final log was asked for, but nothing shows it")
    return found


_PRODUCERS = {"producer_id": "bigint", "producer_epoch": "int"}


def committed_values(
    inputs: Inputs, spans: Spans | None = None, *, with_producers: bool = False
) -> DataFrame:
    """The final log without what belongs to the protocol, and without records that cannot be recognised."""
    return final_log(inputs, spans, with_producers=with_producers).where("not control and value is not null")


def promised_copies(inputs: Inputs) -> DataFrame:
    """topic, min_insync: how many replicas must have what acks=all acknowledges."""
    rows = [
        (topic["name"], int(dict(topic.get("configs") or {}).get("min.insync.replicas", 1)))
        for topic in inputs.manifest.topics
    ]
    return literal(inputs.spark, rows, "topic string, min_insync int")


def compacted_topics(inputs: Inputs) -> list[str]:
    """Topics that forget: an older record of a key may go, and nothing is wrong."""
    return [
        topic["name"]
        for topic in inputs.manifest.topics
        if "compact" in str(dict(topic.get("configs") or {}).get("cleanup.policy", ""))
    ]
