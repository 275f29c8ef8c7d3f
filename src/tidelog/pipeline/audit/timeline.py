"""What happened when: the few thousand numbers that a report draws, out of evidence of any size.

Every query here is an aggregation with a bound that does not depend on the evidence: at most `BUCKETS_MAX`
moments, `PARTITIONS_MAX` partitions (the worst; how many are left out is said), `FAULTS_MAX` faults. Times
are ms after the load began.

Rules of the file: what a moment says about a span is the last that was true in it; what is shorter than a
bucket is counted, not drawn. Clocks are those of whoever tells, as in the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from tidelog.pipeline.audit.findings import VIOLATION
from tidelog.pipeline.report.timeline import (
    BUCKETS_MAX,
    COARSE_MAX,
    CONSUMERS_MAX,
    FAULTS_MAX,
    OFFSETS_MAX,
    PARTITIONS_MAX,
    TRUNCATIONS_MAX,
    WINDOWS_MAX,
    FaultSpan,
    Found,
    Load,
    OffsetPoint,
    PartitionStory,
    Place,
    Reads,
    ReplicaEnd,
    Settled,
    StateSpan,
    Timeline,
    Truncation,
    Window,
)

if TYPE_CHECKING:
    from tidelog.evidence.folder import Manifest
    from tidelog.pipeline.audit.inputs import Inputs

_SECOND_MS: Final = 1_000
_BUCKETS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 250, 500),
    *(seconds * _SECOND_MS for seconds in (1, 2, 5, 10, 30, 60, 300, 900)),
)
_HOUR_MS: Final = 3_600_000


def build(inputs: Inputs, anomalies: DataFrame | None = None) -> Timeline:
    """`anomalies` are those that the audit found, for their moments and to know the worst partitions."""
    sends = _sends(inputs.ledger)
    faults = inputs.faults.orderBy("number").limit(FAULTS_MAX + 1).collect()
    clock = _Clock.of(inputs.manifest, sends, faults)
    coarse = replace(clock, bucket_ms=_bucket_ms(clock.span_ms, COARSE_MAX))
    timeline = Timeline(clock.span_ms, clock.load_ms, clock.bucket_ms, coarse.bucket_ms)
    if sends["latency"]:
        timeline.latency_ms = dict(
            zip(("p50", "p99", "max"), (*sends["latency"], sends["slowest"]), strict=True)
        )
    timeline.faults = [_fault(row, clock) for row in faults[:FAULTS_MAX]]
    if len(faults) > FAULTS_MAX:
        timeline.faults_left_out = inputs.faults.count() - FAULTS_MAX
    timeline.load = _load(inputs.ledger, coarse)
    timeline.settled = _settled(inputs.ledger, coarse)
    timeline.reads, timeline.consumers_left_out = _reads(inputs, coarse)
    if anomalies is not None:
        timeline.found = _found(anomalies, coarse)
    stories, timeline.partitions_left_out = _worst(inputs, anomalies)
    timeline.partitions = list(stories.values())
    if stories:
        _tell_states(inputs.events, clock, stories)
        _tell_offsets(inputs.events, clock, dict(list(stories.items())[:OFFSETS_MAX]))
        _tell_ends(inputs.replicas, stories)
        if anomalies is not None:
            _tell_windows(anomalies, clock, stories)
    return timeline


# ---------------------------------------------------------------- time


@dataclass(slots=True, frozen=True)
class _Clock:
    start_us: int
    span_ms: int
    load_ms: int
    bucket_ms: int

    @classmethod
    def of(cls, manifest: Manifest, sends: Row, faults: Sequence[Row]) -> _Clock:
        start = manifest.load_started_us if manifest.load_started_us is not None else sends["first"] or 0
        ends = (manifest.load_ended_us, sends["last"], sends["end"], *(row["ended_us"] for row in faults))
        span_ms = max((max((end for end in ends if end is not None), default=start) - start) // 1000, 1)
        load_ms = span_ms if manifest.load_ended_us is None else (manifest.load_ended_us - start) // 1000
        return cls(start, span_ms, max(load_ms, 0), _bucket_ms(span_ms, BUCKETS_MAX))

    def at(self, time_us: Column) -> Column:
        """The beginning of the bucket of a time, in ms; what lies outside of the span, at its edge."""
        ms = F.floor((time_us - F.lit(self.start_us)) / F.lit(self.bucket_ms * 1000)) * F.lit(self.bucket_ms)
        last = (self.span_ms - 1) // self.bucket_ms * self.bucket_ms
        return F.greatest(F.least(ms, F.lit(last)), F.lit(0)).cast("long")

    def has(self, time_us: Column) -> Column:
        """Whether a time lies in the span."""
        return time_us.between(self.start_us, self.start_us + self.span_ms * 1000)

    def ms(self, time_us: int) -> int:
        return min(max((time_us - self.start_us) // 1000, 0), self.span_ms)


def _bucket_ms(span_ms: int, most: int) -> int:
    """The shortest round time of which at most so many make up the span."""
    for bucket in _BUCKETS_MS:
        if span_ms <= bucket * most:
            return bucket
    return -(-span_ms // (most * _HOUR_MS)) * _HOUR_MS


# ---------------------------------------------------------------- clients


def _waited_ms() -> Column:
    """How long a send was waited for that was acknowledged in the end."""
    waited = (F.col("settled_us") - F.col("sent_us")) / 1000
    return F.when((F.col("outcome") == "ok") & (F.col("acks") != 0), waited)


def _sends(ledger: DataFrame) -> Row:
    row = ledger.agg(
        F.min("sent_us").alias("first"),
        F.max("sent_us").alias("last"),
        F.max("settled_us").alias("end"),
        F.percentile_approx(_waited_ms(), [0.5, 0.99], 1000).alias("latency"),
        F.max(_waited_ms()).alias("slowest"),
    ).first()
    assert row is not None  # an aggregation over everything has one row
    return row


def _load(ledger: DataFrame, clock: _Clock) -> list[Load]:
    rows = (
        ledger.groupBy(clock.at(F.col("sent_us")).alias("at_ms"), "acks")
        .agg(
            F.count("*").alias("sent"),
            F.count_if(F.col("outcome") == "failed").alias("failed"),
            F.count_if(F.col("outcome") == "unknown").alias("unknown"),
            F.percentile_approx(_waited_ms(), [0.5, 0.99], 1000).alias("waited"),
        )
        .orderBy("at_ms", "acks")
        .collect()
    )
    return [
        Load(r["at_ms"], r["acks"], r["sent"], r["failed"], r["unknown"], *(r["waited"] or (None, None)))
        for r in rows
    ]


def _settled(ledger: DataFrame, clock: _Clock) -> list[Settled]:
    rows = (
        ledger.where((F.col("outcome") == "ok") & F.col("settled_us").isNotNull())
        .groupBy(clock.at(F.col("settled_us")).alias("at_ms"), "acks")
        .agg(F.count("*").alias("ok"))
        .orderBy("at_ms", "acks")
        .collect()
    )
    return [Settled(r["at_ms"], r["acks"], r["ok"]) for r in rows]


def _reads(inputs: Inputs, clock: _Clock) -> tuple[list[Reads], int]:
    """Those of the final reader are left out: it reads everything, after the load."""
    manifest = inputs.manifest
    names = sorted(c["name"] for c in manifest.clients if c.get("role") == "consumer" and "name" in c)
    shown = [name for name in names if name != manifest.final_reader][:CONSUMERS_MAX]
    if not shown:
        return [], 0
    rows = (
        inputs.reads.where(F.col("consumer").isin(shown) & clock.has(F.col("read_us")))
        .groupBy("consumer", clock.at(F.col("read_us")).alias("at_ms"))
        .agg(F.count("*").alias("records"))
        .orderBy("consumer", "at_ms")
        .collect()
    )
    return [Reads(r["at_ms"], r["consumer"], r["records"]) for r in rows], len(names) - len(shown)


def _found(anomalies: DataFrame, clock: _Clock) -> list[Found]:
    rows = (
        anomalies.where((F.col("severity") == VIOLATION) & F.col("time_us").isNotNull())
        .groupBy(clock.at(F.col("time_us")).alias("at_ms"), "anomaly")
        .agg(F.count("*").alias("count"))
        .orderBy("at_ms", "anomaly")
        .collect()
    )
    return [Found(r["at_ms"], r["anomaly"], r["count"]) for r in rows]


# ---------------------------------------------------------------- faults


def _fault(row: Row, clock: _Clock) -> FaultSpan:
    return FaultSpan(
        number=row["number"],
        kind=row["kind"] or "?",
        targets=tuple(row["targets"] or ()),
        from_ms=None if row["began_us"] is None else clock.ms(row["began_us"]),
        to_ms=None if row["ended_us"] is None else clock.ms(row["ended_us"]),
        error=row["error"],
    )


# ---------------------------------------------------------------- partitions


def _worst(inputs: Inputs, anomalies: DataFrame | None) -> tuple[dict[Place, PartitionStory], int]:
    """Those with the most violations, then those that changed hands most; then by their number. Only of the
    topics that the trial was about: brokers have some of their own."""
    topics = [(str(topic["name"]), int(topic["partitions"])) for topic in inputs.manifest.topics]
    ours = F.col("topic").isin([name for name, _ in topics])
    restless = (
        inputs.events.where((F.col("event") == "partition_state_written") & ours)
        .groupBy("topic", "partition")
        .agg(F.count("*").alias("changes"), F.lit(0).cast("long").alias("broken"))
    )
    ranked = restless
    if anomalies is not None:
        ranked = restless.unionByName(
            anomalies.where(F.col("partition").isNotNull() & ours)
            .groupBy("topic", "partition")
            .agg(
                F.lit(0).cast("long").alias("changes"),
                F.count_if(F.col("severity") == VIOLATION).alias("broken"),
            )
        )
    rows = (
        ranked.groupBy("topic", "partition")
        .agg(F.sum("changes").alias("changes"), F.sum("broken").alias("broken"))
        .orderBy(F.desc("broken"), F.desc("changes"), "topic", "partition")
        .limit(PARTITIONS_MAX)
        .collect()
    )
    stories = {
        (r["topic"], r["partition"]): PartitionStory(
            r["topic"], r["partition"], changes=r["changes"], violations=r["broken"]
        )
        for r in rows
    }
    for name, partitions in topics:
        for partition in range(partitions):
            if len(stories) >= PARTITIONS_MAX:
                break
            stories.setdefault((name, partition), PartitionStory(name, partition))
    if all(story.violations == 0 for story in stories.values()):
        stories = dict(sorted(stories.items()))  # where none is worse, in the order one looks for them
    return stories, max(sum(count for _, count in topics) - len(stories), 0)


def _chosen(places: Sequence[Place]) -> Column:
    return reduce(or_, ((F.col("topic") == t) & (F.col("partition") == p) for t, p in places))


def _event_us() -> Column:
    return F.col("time_ms") * 1000


def _tell_states(events: DataFrame, clock: _Clock, stories: dict[Place, PartitionStory]) -> None:
    # The keeper's version orders the states, whoever wrote them and whatever his clock said.
    order = F.struct("leader_epoch", "partition_version", "time_ms")
    state = F.struct("time_ms", "leader", "leader_epoch", "isr")
    rows = (
        events.where((F.col("event") == "partition_state_written") & _chosen(list(stories)))
        .groupBy("topic", "partition", clock.at(_event_us()).alias("at_ms"))
        .agg(F.max_by(state, order).alias("state"))
        .orderBy("topic", "partition", "at_ms")
        .collect()
    )
    for row in rows:
        state, spans = row["state"], stories[row["topic"], row["partition"]].states
        now = clock.ms(state["time_ms"] * 1000)
        span = StateSpan(
            now, clock.span_ms, state["leader"], state["leader_epoch"], tuple(state["isr"] or ())
        )
        if spans:
            last = spans[-1]
            if (last.leader, last.epoch, set(last.isr)) == (span.leader, span.epoch, set(span.isr)):
                continue
            now = max(now, last.from_ms)
            spans[-1] = StateSpan(last.from_ms, now, last.leader, last.epoch, last.isr)
        spans.append(StateSpan(now, clock.span_ms, span.leader, span.epoch, span.isr))


def _tell_offsets(events: DataFrame, clock: _Clock, stories: dict[Place, PartitionStory]) -> None:
    about = events.where(_chosen(list(stories)))
    order = F.struct("time_ms", "process_start_ms", "sequence")
    rows = (
        about.where(F.col("log_end_offset").isNotNull() | F.col("high_watermark").isNotNull())
        .groupBy("topic", "partition", "broker", clock.at(_event_us()).alias("at_ms"))
        .agg(
            F.max_by("log_end_offset", F.when(F.col("log_end_offset").isNotNull(), order)).alias("end"),
            F.max_by("high_watermark", F.when(F.col("high_watermark").isNotNull(), order)).alias("committed"),
        )
        .orderBy("at_ms", "broker")
        .collect()
    )
    for r in rows:
        stories[r["topic"], r["partition"]].offsets.append(
            OffsetPoint(r["at_ms"], r["broker"], r["end"], r["committed"])
        )
    cut = F.col("previous_log_end_offset") - F.col("log_end_offset")
    rows = (
        about.where(F.col("event") == "truncated")
        .orderBy(F.desc(cut), "time_ms")
        .limit(TRUNCATIONS_MAX)
        .collect()
    )
    for r in sorted(rows, key=lambda r: r["time_ms"]):
        stories[r["topic"], r["partition"]].truncations.append(
            Truncation(
                clock.ms(r["time_ms"] * 1000),
                r["broker"],
                r["previous_log_end_offset"],
                r["log_end_offset"],
                r["why"] or "",
            )
        )


def _tell_ends(replicas: DataFrame, stories: dict[Place, PartitionStory]) -> None:
    rows = (
        replicas.where(_chosen(list(stories)))
        .groupBy("topic", "partition", "broker")
        .agg(
            F.min("log_start_offset").alias("start"),
            F.max("log_end_offset").alias("end"),
            F.max("high_watermark").alias("committed"),
            F.first("isr").alias("isr"),
        )
        .orderBy("topic", "partition", "broker")
        .collect()
    )
    for r in rows:
        stories[r["topic"], r["partition"]].replicas.append(
            ReplicaEnd(r["broker"], r["start"], r["end"], r["committed"], r["broker"] in (r["isr"] or ()))
        )


def _tell_windows(anomalies: DataFrame, clock: _Clock, stories: dict[Place, PartitionStory]) -> None:
    rows = (
        anomalies.where((F.col("anomaly") == "unavailable") & F.col("time_us").isNotNull())
        .where(_chosen(list(stories)))
        .orderBy(F.desc_nulls_first(F.col("until_us") - F.col("time_us")))
        .limit(WINDOWS_MAX)
        .collect()
    )
    for r in sorted(rows, key=lambda r: r["time_us"]):
        stories[r["topic"], r["partition"]].unavailable.append(
            Window(
                clock.ms(r["time_us"]),
                clock.span_ms if r["until_us"] is None else clock.ms(r["until_us"]),
                r["detail"] or "",
            )
        )
