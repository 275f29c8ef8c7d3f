"""The timeline: what happened when, in a size that does not grow with the evidence."""

from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from tests.pipeline import samples

from tidelog.core.reasons import TruncationRule
from tidelog.evidence.parquet.parts import arrow_rows, write_part
from tidelog.evidence.tables import TABLES
from tidelog.narrate.phrasebook import Phrase, say
from tidelog.pipeline.audit import timeline
from tidelog.pipeline.audit.evidence import load
from tidelog.pipeline.audit.judging import judge
from tidelog.pipeline.report import timeline as t

START_US = 1_000_000


def build(tmp_path: Path, manifest: Any = None, **tables: Any) -> t.Timeline:
    """The timeline of evidence out of rows, or Arrow tables; a table that is not mentioned is empty."""
    manifest = manifest or samples.manifest()
    manifest.write(tmp_path)
    for table in TABLES:
        given = tables.get(table.name, ())
        content = given if isinstance(given, pa.Table) else arrow_rows(table, given)
        if len(content):
            write_part(tmp_path / table.name, "rows", content)
    evidence = load(tmp_path)
    found = judge(evidence)
    places = {part.number: part.place for part in found.context.parts}
    summed = found.summed
    return timeline.build(evidence, summed.ledgers, summed.drawn, found.tally, found.windows, places)


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


def test_a_small_trial_moment_by_moment(tmp_path: Path):
    """Sends by when they began, acknowledgements by when they came, leaders from one change to the next."""
    line = build(
        tmp_path,
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
    (cut,) = first.truncations
    assert isinstance(cut.cause, Phrase)
    assert (cut.at_ms, cut.broker, cut.before, cut.after) == (4_000, 3, 9, 7)
    assert say(cut.cause) == "epoch 0 ends at 7 in its own log"
    assert t.OffsetPoint(4_000, 2, None, 8) in first.offsets
    assert [(r.broker, r.log_end_offset, r.in_sync) for r in first.replicas] == [
        (1, 8, True),
        (2, 7, True),
        (3, 6, False),
    ]


def test_its_size_is_bounded(tmp_path: Path):
    """A week on a thousand partitions: few moments, the worst partitions, and how many are left out."""
    week_us = 7 * 86_400 * 1_000_000
    ledger = [
        {"producer": "p", "sequence": n, "topic": "trial", "partition": n % 1000, "acks": -1, "outcome": "ok"}
        | {"sent_us": START_US + n * week_us // 20_000, "settled_us": START_US + n * week_us // 20_000 + 5000}
        | ({"value": "gone", "offset": 0, "partition": 500} if n == 0 else {})
        for n in range(20_000)
    ]
    events = [
        state(n * week_us // 40_000_000, n % 3 - 1, n, [1, 2], n)
        | {"partition": 77 if n % 2 == 0 else n % 1000}
        for n in range(40_000)
    ]
    events.append(state(0, -1, 1, [1], 1) | {"partition": 500})
    faults = [{"number": n, "kind": "kill", "targets": ["1"], "began_us": START_US + n} for n in range(5_000)]
    replicas = [
        {"broker": 1, "topic": "trial", "partition": 500, "leader": 1, "isr": [1]}
        | {"log_start_offset": 0, "log_end_offset": 0, "high_watermark": 0, "base_offset": 0}
    ]
    week = samples.manifest(load_ended_us=START_US + week_us)
    week.topics[0]["partitions"] = 1_000
    line = build(tmp_path, week, ledger=ledger, events=events, faults=faults, replicas=replicas)
    assert len(line.load) <= t.COARSE_MAX + 1
    assert sum(row.sent for row in line.load) == 20_000
    assert len(line.partitions) == t.PARTITIONS_MAX
    assert line.partitions_left_out == 1_000 - t.PARTITIONS_MAX
    worst, restless = line.partitions[:2]
    assert (worst.partition, worst.violations) == (500, 1)
    assert restless.partition == 77
    assert [(w.from_ms, w.to_ms) for w in worst.unavailable] == [(0, line.span_ms)]
    assert 100 < sum(len(story.unavailable) for story in line.partitions) <= t.WINDOWS_MAX
    assert 100 < len(restless.states) <= t.BUCKETS_MAX + 1
    assert len(line.faults) == t.FAULTS_MAX
    assert line.faults_left_out == 5_000 - t.FAULTS_MAX
    assert [(row.anomaly, row.count) for row in line.found] == [("lost", 1)]
