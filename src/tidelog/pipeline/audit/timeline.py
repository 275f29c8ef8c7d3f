"""What happened when: the few thousand numbers that a report draws, out of evidence of any size.

They come from the same pieces as the verdict. Their number has a bound that does not depend on the evidence:
at most `BUCKETS_MAX` moments, `PARTITIONS_MAX` partitions (the worst; the number left out is shown),
`FAULTS_MAX` faults. Times are ms after the load began.

Rules of the file: what a moment says about a span is the last that was true in it; what is shorter than a
bucket is counted, not drawn. Clocks are those of the processes that recorded the events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.evidence.tables import LEDGER
from tidelog.pipeline.audit.context import Axis, consumer_names
from tidelog.pipeline.audit.evidence import Evidence
from tidelog.pipeline.audit.findings import Finding, Tally
from tidelog.pipeline.audit.reasons import reason_of
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
    from tidelog.pipeline.audit.kernels.ledger_piece import LedgerResult

_SECOND_MS: Final = 1_000
_BUCKETS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 250, 500),
    *(seconds * _SECOND_MS for seconds in (1, 2, 5, 10, 30, 60, 300, 900)),
)
_HOUR_MS: Final = 3_600_000
_FAILED, _UNKNOWN = 1, 2


def axis_of(evidence: Evidence, most: int = COARSE_MAX) -> Axis:
    """From the beginning of the load to the last that was settled or healed. Files tell their times in their
    footers."""
    manifest, files = evidence.manifest, evidence.tables[LEDGER.name]
    firsts = [file.first_us for file in files if file.first_us is not None]
    lasts = [file.last_us for file in files if file.last_us is not None]
    start = manifest.load_started_us if manifest.load_started_us is not None else min(firsts, default=0)
    ends = [*lasts, *(row["ended_us"] for row in evidence.faults if row["ended_us"] is not None)]
    if manifest.load_ended_us is not None:
        ends.append(manifest.load_ended_us)
    span_ms = max((max(ends, default=start) - start) // 1000, 1)
    return Axis(start, span_ms, _bucket_ms(span_ms, most))


def _bucket_ms(span_ms: int, most: int) -> int:
    """The shortest round time of which at most that many make up the span."""
    for bucket in _BUCKETS_MS:
        if span_ms <= bucket * most:
            return bucket
    return -(-span_ms // (most * _HOUR_MS)) * _HOUR_MS


def consumers_of(evidence: Evidence) -> tuple[tuple[str, ...], int]:
    """Those whose reads are drawn, and how many are left out."""
    names = consumer_names(evidence.manifest)
    shown = names[:CONSUMERS_MAX]
    return tuple(shown), len(names) - len(shown)


def build(  # noqa: PLR0917
    evidence: Evidence,
    ledgers: Sequence[LedgerResult],
    drawn: Mapping[tuple[str, int], int],
    tally: Tally,
    windows: Sequence[Finding] = (),
    places: Mapping[int, Place] | None = None,
) -> Timeline:
    """Out of the results of the ledger's pieces, of reads by consumer and moment, and of what was found."""
    coarse = axis_of(evidence)
    fine = axis_of(evidence, BUCKETS_MAX)
    ended = evidence.manifest.load_ended_us
    load_ms = coarse.span_ms if ended is None else max((ended - coarse.start_us) // 1000, 0)
    timeline = Timeline(coarse.span_ms, load_ms, fine.bucket_ms, coarse.bucket_ms)
    _tell_sends(timeline, ledgers)
    faults = sorted(evidence.faults, key=lambda row: row["number"] or 0)
    timeline.faults = [_fault(row, fine) for row in faults[:FAULTS_MAX]]
    timeline.faults_left_out = max(len(faults) - FAULTS_MAX, 0)
    timeline.consumers_left_out = consumers_of(evidence)[1]
    timeline.reads = [Reads(at, name, count) for (name, at), count in sorted(drawn.items())]
    timeline.found = [Found(at, name, count) for (at, name), count in sorted(tally.moments.items())]
    events = evidence.events
    states = _of_kind(events, "partition_state_written")
    stories, timeline.partitions_left_out = _worst(evidence, states, tally.broken)
    timeline.partitions = list(stories.values())
    _tell_states(states, fine, stories)
    _tell_offsets(evidence, fine, dict(list(stories.items())[:OFFSETS_MAX]))
    _tell_ends(evidence.replicas, stories)
    _tell_windows(windows, fine, stories, places or {})
    return timeline


def _of_kind(events: Any, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = events.filter(pc.equal(events["event"], kind)).to_pylist()
    return found


# ---------------------------------------------------------------- clients


def _tell_sends(timeline: Timeline, ledgers: Sequence[LedgerResult]) -> None:
    sent: Counter[tuple[int, int, int]] = Counter()
    settled: Counter[tuple[int, int]] = Counter()
    waits: dict[tuple[int, int], Counter[int]] = {}
    slowest = -1
    for result in ledgers:
        sent.update(result.load)
        settled.update(result.settled)
        slowest = max(slowest, result.slowest)
        for (at, acks, waited), count in result.waits.items():
            waits.setdefault((at, acks), Counter())[waited] += count
    everything: Counter[int] = Counter()
    for each in waits.values():
        everything.update(each)
    if everything:
        p50, p99 = _percentiles(everything)
        timeline.latency_ms = {"p50": p50, "p99": p99, "max": slowest / 1000}
    for at, acks in sorted({(at, acks) for at, acks, _ in sent}):
        counts = [sent[at, acks, outcome] for outcome in range(3)]
        shown = _percentiles(waits[at, acks]) if (at, acks) in waits else (None, None)
        timeline.load.append(Load(at, acks, sum(counts), counts[_FAILED], counts[_UNKNOWN], *shown))
    timeline.settled = [Settled(at, acks, count) for (at, acks), count in sorted(settled.items())]


def _percentiles(waits: Counter[int]) -> tuple[float, float]:
    """p50 and p99 in ms."""
    total, seen = sum(waits.values()), 0
    found: list[float] = []
    goals = [0.5 * total, 0.99 * total]
    for waited, count in sorted(waits.items()):
        seen += count
        while len(found) < len(goals) and seen >= goals[len(found)]:
            found.append(waited / 1000)
    return found[0], found[1]


# ---------------------------------------------------------------- faults


def _fault(row: Mapping[str, Any], axis: Axis) -> FaultSpan:
    return FaultSpan(
        number=row["number"],
        kind=row["kind"] or "?",
        targets=tuple(row["targets"] or ()),
        from_ms=None if row["began_us"] is None else axis.ms(row["began_us"]),
        to_ms=None if row["ended_us"] is None else axis.ms(row["ended_us"]),
        error=row["error"],
    )


# ---------------------------------------------------------------- partitions


def _worst(
    evidence: Evidence, states: list[dict[str, Any]], broken: Mapping[tuple[str | None, int | None], int]
) -> tuple[dict[Place, PartitionStory], int]:
    """Those with the most violations, then those that changed hands most; then by their number. Only of the
    topics that the trial was about: brokers have some of their own."""
    topics = [(str(topic["name"]), int(topic["partitions"])) for topic in evidence.manifest.topics]
    ours = {name for name, _ in topics}
    changes = Counter((row["topic"], row["partition"]) for row in states if row["topic"] in ours)
    violated = {place: n for place, n in broken.items() if place[0] in ours and place[1] is not None}
    ranked = sorted(
        {*changes, *violated}, key=lambda place: (-violated.get(place, 0), -changes[place], place)
    )
    stories: dict[Place, PartitionStory] = {
        place: PartitionStory(*place, changes=changes[place], violations=violated.get(place, 0))
        for place in ranked[:PARTITIONS_MAX]
    }
    for name, partitions in topics:
        for partition in range(partitions):
            if len(stories) >= PARTITIONS_MAX:
                break
            stories.setdefault((name, partition), PartitionStory(name, partition))
    if all(story.violations == 0 for story in stories.values()):
        stories = dict(sorted(stories.items()))  # where none is worse, in the order one looks for them
    return stories, max(sum(count for _, count in topics) - len(stories), 0)


def _tell_states(states: list[dict[str, Any]], axis: Axis, stories: dict[Place, PartitionStory]) -> None:
    # The keeper's version orders the states, whatever the clock of their writer said.
    last: dict[tuple[Place, int], tuple[tuple[int, int, int], dict[str, Any]]] = {}
    for row in states:
        place = (row["topic"], row["partition"])
        if place in stories:
            key = (place, axis.bucket(row["time_ms"] * 1000))
            order = (row["leader_epoch"] or 0, row["partition_version"] or 0, row["time_ms"])
            if key not in last or order > last[key][0]:
                last[key] = (order, row)
    for (place, _), (_, row) in sorted(last.items(), key=lambda item: item[0]):
        spans = stories[place].states
        now = axis.ms(row["time_ms"] * 1000)
        isr = tuple(row["isr"] or ())
        if spans:
            before = spans[-1]
            if (before.leader, before.epoch, set(before.isr)) == (
                row["leader"],
                row["leader_epoch"],
                set(isr),
            ):
                continue
            now = max(now, before.from_ms)
            spans[-1] = StateSpan(before.from_ms, now, before.leader, before.epoch, before.isr)
        spans.append(StateSpan(now, axis.span_ms, row["leader"], row["leader_epoch"], isr))


def _tell_offsets(evidence: Evidence, axis: Axis, stories: dict[Place, PartitionStory]) -> None:
    events = evidence.events
    known = pc.or_(pc.is_valid(events["log_end_offset"]), pc.is_valid(events["high_watermark"]))
    topics = pc.is_in(events["topic"], value_set=pa.array(sorted({t for t, _ in stories}), pa.string()))
    about = events.filter(pc.and_(known, topics))
    points: dict[tuple[Place, int, int], list[Any]] = {}
    names = ["topic", "partition", "broker", "time_ms", "process_start_ms", "sequence"]
    rows = about.select([*names, "log_end_offset", "high_watermark"]).to_pylist()
    for row in sorted(rows, key=lambda r: (r["time_ms"], r["process_start_ms"] or 0, r["sequence"] or 0)):
        place = (row["topic"], row["partition"])
        if place in stories:
            key = (place, axis.bucket(row["time_ms"] * 1000), row["broker"])
            point = points.setdefault(key, [None, None])
            for index, name in enumerate(("log_end_offset", "high_watermark")):
                point[index] = point[index] if row[name] is None else row[name]
    for (place, at, broker), (end, mark) in sorted(points.items(), key=lambda p: (p[0][1], p[0][2])):
        stories[place].offsets.append(OffsetPoint(at, broker, end, mark))
    cuts = [row for row in _of_kind(events, "truncated") if (row["topic"], row["partition"]) in stories]
    cuts.sort(key=lambda r: (r["log_end_offset"] - r["previous_log_end_offset"], r["time_ms"]))
    for row in sorted(cuts[:TRUNCATIONS_MAX], key=lambda r: r["time_ms"]):
        _, why = reason_of(row, evidence.manifest.schema_version)
        stories[row["topic"], row["partition"]].truncations.append(
            Truncation(
                axis.ms(row["time_ms"] * 1000),
                row["broker"],
                row["previous_log_end_offset"],
                row["log_end_offset"],
                why or "",
            )
        )


def _tell_ends(replicas: Iterable[Mapping[str, Any]], stories: dict[Place, PartitionStory]) -> None:
    rows: dict[tuple[Place, int], list[Mapping[str, Any]]] = {}
    for row in replicas:
        if (row["topic"], row["partition"]) in stories:
            rows.setdefault(((row["topic"], row["partition"]), row["broker"]), []).append(row)
    for (place, broker), mine in sorted(rows.items()):
        starts, ends, marks = (
            [row[name] for row in mine if row[name] is not None]
            for name in ("log_start_offset", "log_end_offset", "high_watermark")
        )
        isr = mine[0]["isr"] or ()
        stories[place].replicas.append(
            ReplicaEnd(
                broker,
                min(starts, default=None),
                max(ends, default=None),
                max(marks, default=None),
                broker in isr,
            )
        )


def _tell_windows(
    windows: Sequence[Finding],
    axis: Axis,
    stories: dict[Place, PartitionStory],
    places: Mapping[int, Place],
) -> None:
    mine = [
        w for w in windows if w.part is not None and places.get(w.part) in stories and w.time_us is not None
    ]
    mine.sort(key=lambda w: -(1 << 62) if w.until_us is None else (w.time_us or 0) - w.until_us)
    for window in sorted(mine[:WINDOWS_MAX], key=lambda w: w.time_us or 0):
        stories[places[window.part or 0]].unavailable.append(
            Window(
                axis.ms(window.time_us or 0),
                axis.span_ms if window.until_us is None else axis.ms(window.until_us),
                window.detail or "",
            )
        )
