"""The timeline: what happened when, in a size that does not grow with the evidence."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType
from tests.pipeline import samples

from tidelog.core.events import TruncationRule
from tidelog.evidence.tables import EVENTS, FAULTS, LEDGER, SCHEMA_VERSION, TABLES, Table
from tidelog.pipeline.audit.findings import ANOMALIES
from tidelog.pipeline.audit.inputs import Inputs, spark_schema
from tidelog.pipeline.audit.reasons import with_reasons
from tidelog.pipeline.audit.timeline import build
from tidelog.pipeline.report import timeline as t

START_US = 1_000_000


def _schema(table: Table | str) -> StructType:
    return cast(StructType, StructType.fromDDL(table if isinstance(table, str) else spark_schema(table)))


def rows(spark: SparkSession, table: Table, given: Iterable[dict[str, Any]]) -> DataFrame:
    schema = _schema(table)
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in given], schema)


def inputs(spark: SparkSession, manifest: Any = None, **tables: Any) -> Inputs:
    """Evidence out of rows; a table that is not mentioned is empty."""
    made: dict[str, Any] = {
        table.name: given if isinstance(given, DataFrame) else rows(spark, table, given)
        for table in TABLES
        for given in [tables.get(table.name, ())]
    }
    made["events"] = with_reasons(made["events"], SCHEMA_VERSION)
    return Inputs(manifest=manifest or samples.manifest(), folder=Path("nowhere"), **made)


def send(ms: int, *, took_ms: int | None = 5, outcome: str = "ok", acks: int = -1) -> dict[str, Any]:
    sent = START_US + ms * 1000
    settled = None if took_ms is None else sent + took_ms * 1000
    return {
        "topic": "trial",
        "partition": 0,
        "sent_us": sent,
        "settled_us": settled,
        "outcome": outcome,
        "acks": acks,
    }


def state(ms: int, leader: int, epoch: int, isr: list[int], version: int) -> dict[str, Any]:
    return {
        "event": "partition_state_written",
        "time_ms": START_US // 1000 + ms,
        "broker": 1,
        "topic": "trial",
        "partition": 0,
        "leader": leader,
        "leader_epoch": epoch,
        "isr": isr,
        "partition_version": version,
    }


def test_a_small_trial_moment_by_moment(spark: SparkSession):
    """Sends by when they began, acknowledgements by when they came, leaders from one change to the next."""
    told = inputs(
        spark,
        ledger=[
            send(0),
            send(0, acks=1),
            send(1_000, took_ms=3_000),
            send(2_000, took_ms=None, outcome="unknown"),
        ],
        reads=[
            {"consumer": "c1", "topic": "trial", "partition": 0, "read_us": START_US + 5_000},
            {"consumer": "final", "topic": "trial", "partition": 0, "read_us": START_US + 5_000},
        ],
        faults=[
            {
                "number": 0,
                "kind": "kill",
                "targets": ["1"],
                "began_us": START_US + 900_000,
                "ended_us": START_US + 4_000_000,
            },
            {"number": 1, "kind": "elect", "targets": [], "error": "nobody to ask"},
        ],
        events=[
            state(-500, 1, 0, [1, 2, 3], 0),
            state(3_500, 2, 1, [2, 3], 1),
            state(3_510, 2, 1, [3, 2], 2),
            state(9_000, -1, 2, [3], 3),
            {"event": "truncated", "time_ms": 5_000, "broker": 3, "topic": "trial", "partition": 0}
            | {"previous_log_end_offset": 9, "log_end_offset": 7}
            | {"rule": TruncationRule.EPOCH_END_HERE.value, "rule_epoch": 0, "rule_epoch_end": 7},
            {
                "event": "high_watermark_advanced",
                "time_ms": 5_100,
                "broker": 2,
                "topic": "trial",
                "partition": 0,
            }
            | {"high_watermark": 8, "previous_high_watermark": 7},
        ],
        replicas=[
            {"broker": b, "topic": "trial", "partition": 0, "log_start_offset": 0, "log_end_offset": 9 - b}
            | {"high_watermark": 7, "isr": [1, 2]}
            for b in (1, 2, 3)
        ],
        manifest=samples.manifest(clients=[{"role": "consumer", "name": "c1"}]),
    )
    line = build(told)
    assert (line.span_ms, line.load_ms) == (60_000, 60_000)
    assert line.latency_ms == {"p50": 5.0, "p99": 3000.0, "max": 3000.0}
    assert [(row.at_ms, row.acks, row.sent, row.unknown) for row in line.load] == [
        (0, -1, 1, 0),
        (0, 1, 1, 0),
        (1_000, -1, 1, 0),
        (2_000, -1, 1, 1),
    ]
    assert [(row.at_ms, row.acks, row.ok) for row in line.settled] == [(0, -1, 1), (0, 1, 1), (4_000, -1, 1)]
    assert line.reads == [t.Reads(0, "c1", 1)]
    assert line.faults == [
        t.FaultSpan(0, "kill", ("1",), 900, 4_000, None),
        t.FaultSpan(1, "elect", (), None, None, "nobody to ask"),
    ]
    first, *others = line.partitions
    assert len(others) == 5
    assert first.states == [
        t.StateSpan(0, 3_510, 1, 0, (1, 2, 3)),
        t.StateSpan(3_510, 9_000, 2, 1, (3, 2)),
        t.StateSpan(9_000, 60_000, -1, 2, (3,)),
    ]
    assert first.truncations == [t.Truncation(4_000, 3, 9, 7, "epoch 0 ends at 7 here")]
    assert t.OffsetPoint(4_000, 2, None, 8) in first.offsets
    assert [(r.broker, r.log_end_offset, r.in_sync) for r in first.replicas] == [
        (1, 8, True),
        (2, 7, True),
        (3, 6, False),
    ]


@pytest.mark.long
def test_its_size_is_bounded(spark: SparkSession):
    """A week on a thousand partitions: few moments, the worst partitions, and how many are left out."""
    week_us = 7 * 86_400 * 1_000_000
    ledger = spark.range(20_000).selectExpr(
        "'trial' as topic",
        "cast(id % 1000 as int) as partition",
        f"{START_US} + id * {week_us // 20_000} as sent_us",
        f"{START_US} + id * {week_us // 20_000} + 5000 as settled_us",
        "'ok' as outcome",
        "-1 as acks",
    )
    events = spark.range(40_000).selectExpr(
        "'partition_state_written' as event",
        f"{START_US // 1000} + id * {week_us // 40_000_000} as time_ms",
        "cast(1 as int) as broker",
        "'trial' as topic",
        "cast(if(id % 2 = 0, 77, id % 1000) as int) as partition",
        "cast(id % 3 as int) as leader",
        "cast(id as int) as leader_epoch",
        "array(1, 2) as isr",
        "cast(id as int) as partition_version",
    )
    faults = spark.range(5_000).selectExpr(
        "cast(id as int) as number", "'kill' as kind", "array('1') as targets", f"{START_US} + id as began_us"
    )
    week = samples.manifest(load_ended_us=START_US + week_us)
    week.topics[0]["partitions"] = 1_000
    told = inputs(
        spark,
        week,
        ledger=widened(ledger, LEDGER),
        events=widened(events, EVENTS),
        faults=widened(faults, FAULTS),
    )
    found = spark.createDataFrame(
        [
            ("lost", "violation", "trial", 500, START_US + 5, None),
            ("unavailable", "notice", "trial", 500, START_US, None),
        ],
        "anomaly string, severity string, topic string, partition int, time_us long, until_us long",
    )
    line = build(told, widened(found, ANOMALIES))
    assert len(line.load) <= t.COARSE_MAX + 1
    assert sum(row.sent for row in line.load) == 20_000
    assert len(line.partitions) == t.PARTITIONS_MAX
    assert line.partitions_left_out == 1_000 - t.PARTITIONS_MAX
    worst, restless = line.partitions[:2]
    assert (worst.partition, worst.violations) == (500, 1)
    assert worst.unavailable == [t.Window(0, line.span_ms, "")]
    assert restless.partition == 77
    assert 100 < len(restless.states) <= t.BUCKETS_MAX + 1
    assert len(line.faults) == t.FAULTS_MAX
    assert line.faults_left_out == 5_000 - t.FAULTS_MAX
    assert [(row.anomaly, row.count) for row in line.found] == [("lost", 1)]


def widened(frame: DataFrame, table: Table | str) -> DataFrame:
    """With all columns of a table; what is not there is null."""
    schema = _schema(table)
    return frame.select(
        *(
            (f.col(c.name) if c.name in frame.columns else f.lit(None)).cast(c.dataType).alias(c.name)
            for c in schema.fields
        )
    )


def test_no_evidence_has_a_timeline_too(spark: SparkSession):
    """Empty tables and a manifest that knows nothing."""
    empty = samples.manifest(topics=[], brokers=[], load_started_us=None, load_ended_us=None)
    line = build(inputs(spark, empty))
    assert line.partitions == []
    assert line.load == []
    assert line.span_ms == 1
