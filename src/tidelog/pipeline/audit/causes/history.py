"""What happened to each partition, as one row of sorted arrays, to look a finding's cause up in.

A cause is found by asking, for one record, "who was elected after that without it?" or "who cut it off?".
With the few hundred happenings of a partition in arrays beside the finding, that is a filter over an array:
no join multiplies findings by events, however many there are of either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.pipeline.audit.inputs import Inputs
from tidelog.pipeline.audit.tables.stretches import PLACE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def history(inputs: Inputs) -> DataFrame:
    """topic, partition, and in the order of time:

    elections: at_us, epoch, broker, end (of its log when it took office), rule and why, isr
    cuts: at_us, broker, before, after (the ends of its log), rule, why
    repairs: at_us, broker, end, bytes, why (recovery found damage and cut it off)
    commits: epoch, from_offset, to_offset, isr (whose copies counted)
    deaths: at_us, broker, kind (kill or power)"""
    from pyspark.sql import functions as f

    happened = inputs.events.where(
        "topic is not null and event in "
        "('became_leader', 'truncated', 'log_recovered', 'partition_state_written')"
    ).withColumn("at_us", f.col("time_ms") * 1000)
    told = happened.groupBy(*PLACE).agg(
        _listed("became_leader", "struct(at_us, leader_epoch as epoch, broker, log_end_offset as end, isr)"),
        _listed(
            "truncated",
            "struct(at_us, broker, previous_log_end_offset as before, log_end_offset as after, rule, why)",
        ),
        _listed(
            "log_recovered", "struct(at_us, broker, log_end_offset as end, truncated_bytes as bytes, why)"
        ),
        _listed("partition_state_written", "struct(leader_epoch as epoch, partition_version, rule, why)"),
    )
    # An election's reason is what the controller wrote first about its epoch.
    written = "try_element_at(filter(partition_state_written, s -> s.epoch = e.epoch), 1)"
    elections = f"""transform(became_leader, e -> struct(
        e.at_us, e.epoch, e.broker, e.end, {written}.rule as rule, {written}.why as why, e.isr))"""
    found = told.selectExpr(
        *PLACE, f"{elections} as elections", "truncated as cuts", "log_recovered as repairs"
    )
    return found.join(_commits(inputs), PLACE, "full_outer").join(_deaths(inputs), PLACE, "left")


def _listed(event: str, entry: str) -> Column:
    """The events of a kind in order; none of it: an empty list."""
    from pyspark.sql import functions as f

    return f.expr(f"sort_array(collect_list({entry}) filter (where event = '{event}'))").alias(event)


def _commits(inputs: Inputs) -> DataFrame:
    """The advances of one epoch with the same replicas in sync are one stretch."""
    from pyspark.sql import functions as f

    return (
        inputs.events.where("topic is not null and event = 'high_watermark_advanced'")
        .groupBy(*PLACE, "leader_epoch", "isr")
        .agg(
            f.min("previous_high_watermark").alias("from_offset"),
            f.max("high_watermark").alias("to_offset"),
        )
        .groupBy(*PLACE)
        .agg(
            f.expr(
                "sort_array(collect_list(struct(leader_epoch as epoch, from_offset, to_offset, isr)))"
            ).alias("commits")
        )
    )


def _deaths(inputs: Inputs) -> DataFrame:
    """Of the brokers that hold a replica, or of which something was told."""
    from pyspark.sql import functions as f

    deaths = (
        inputs.faults.where("kind in ('kill', 'power') and began_us is not null")
        .selectExpr("kind", "began_us as at_us", "explode(targets) as target")
        .selectExpr("kind", "at_us", "try_cast(target as int) as broker")
        .where("broker is not null")
    )
    holders = inputs.replicas.select(*PLACE, "broker").distinct()
    return (
        holders.join(f.broadcast(deaths), "broker")
        .groupBy(*PLACE)
        .agg(f.expr("sort_array(collect_list(struct(at_us, broker, kind)))").alias("deaths"))
    )


def faults(inputs: Inputs) -> DataFrame:
    """All that was done to the cluster, as one row: an array of began_us, ended_us, words."""
    from pyspark.sql import functions as f

    return inputs.faults.where("began_us is not null").agg(
        f.sort_array(
            f.collect_list(
                f.expr(
                    "struct(began_us, ended_us, "
                    "concat(kind, ' ', array_join(slice(targets, 1, 6), ', ')) as words)"
                )
            )
        ).alias("faults")
    )
