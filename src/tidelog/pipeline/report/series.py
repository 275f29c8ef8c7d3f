"""The charts of the load: sends and acknowledgements, how long they took, what consumers read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from tidelog.narrate.numbers import moment, short
from tidelog.pipeline.audit.findings import VIOLATION
from tidelog.pipeline.report.charts import Band, Chart, Point
from tidelog.pipeline.report.findings import Finding
from tidelog.pipeline.report.html import Markup
from tidelog.pipeline.report.scale import decades, value_marks
from tidelog.pipeline.report.speaker import Speaker
from tidelog.pipeline.report.timeline import Timeline

_ACKS: Final = {-1: "acks=all", 1: "acks=1", 0: "acks=0"}
_MS_MIN: Final = 0.1


def acks_name(acks: int) -> str:
    return _ACKS.get(acks, f"acks={acks}")


def throughput(timeline: Timeline, bands: Sequence[Band], speaker: Speaker) -> Markup | None:
    """What was acknowledged in each moment, against what was sent; what went wrong, on top of it."""
    if not timeline.load:
        return None
    a_second = 1000 / timeline.coarse_ms
    sent = _summed((row.at_ms, row.sent * a_second) for row in timeline.load)
    per_acks = {
        acks: _summed((row.at_ms, row.ok * a_second) for row in timeline.settled if row.acks == acks)
        for acks in sorted({row.acks for row in timeline.settled})
    }
    all_ok = _summed((at, value) for series in per_acks.values() for at, value in series.items())
    bad = _summed((row.at_ms, (row.failed + row.unknown) * a_second) for row in timeline.load)
    high = max([*sent.values(), *all_ok.values(), 1.0])
    chart = Chart(
        speaker.say("report.throughput"),
        speaker.say("report.per_second"),
        timeline.span_ms,
        value_marks(high),
        short,
        description=speaker.say("report.throughput_what"),
    )
    chart.bands(bands)
    chart.area(sorted(all_ok.items()), timeline.coarse_ms, "ok", speaker.say("report.acknowledged"))
    if len(per_acks) > 1:
        for acks, series in per_acks.items():
            style = f"acks{'all' if acks == -1 else acks}"
            chart.line(
                _gapless(series, timeline), style, speaker.say("report.with_acks", acks=acks_name(acks))
            )
    chart.line(_gapless(sent, timeline), "sent", speaker.say("report.sent"))
    if any(bad.values()):
        chart.area(sorted(bad.items()), timeline.coarse_ms, "bad", speaker.say("report.failed_or_unknown"))
    return chart.figure()


def trouble(timeline: Timeline, bands: Sequence[Band], speaker: Speaker) -> Markup | None:
    """When the records were sent or read whose promise was broken."""
    if not timeline.found:
        return None
    counts = Counter[str]()
    for row in timeline.found:
        counts[row.anomaly] += row.count
    total = _summed((row.at_ms, float(row.count)) for row in timeline.found)
    names = speaker.listed(
        [Finding(kind, VIOLATION, count).said(speaker.book) for kind, count in sorted(counts.items())]
    )
    chart = Chart(
        speaker.say("report.trouble"),
        speaker.say("report.trouble_unit", duration=moment(timeline.coarse_ms)),
        timeline.span_ms,
        value_marks(max(total.values())),
        short,
        height_px=90,
        description=speaker.say("report.trouble_what", names=names),
    )
    chart.bands(bands)
    chart.area(sorted(total.items()), timeline.coarse_ms, "lost", names)
    return chart.figure()


def latency(timeline: Timeline, bands: Sequence[Band], speaker: Speaker) -> Markup | None:
    """How long a send of each moment waited for its acknowledgement. The axis is logarithmic."""
    rows = [row for row in timeline.load if row.p99_ms is not None and row.acks != 0]
    if not rows:
        return None
    median: dict[int, float] = {}
    worst: dict[int, float] = {}
    for row in rows:  # of several kinds of acks the slowest is drawn
        median[row.at_ms] = max(median.get(row.at_ms, 0.0), row.p50_ms or 0.0)
        worst[row.at_ms] = max(worst.get(row.at_ms, 0.0), row.p99_ms or 0.0)
    chart = Chart(
        speaker.say("report.latency"),
        speaker.say("report.latency_unit"),
        timeline.span_ms,
        decades(max(min(median.values()), _MS_MIN), max(worst.values())),
        lambda ms: moment(ms) if ms >= 1 else f"{ms:g} ms",
        up=lambda ms: math.log10(max(ms, 1e-6)),
        description=speaker.say("report.latency_what"),
    )
    chart.bands(bands)
    chart.line(_broken(worst, timeline), "p99", "99 %")
    chart.line(_broken(median, timeline), "p50", speaker.say("report.median"))
    return chart.figure()


def reads(timeline: Timeline, bands: Sequence[Band], speaker: Speaker) -> Markup | None:
    if not timeline.reads:
        return None
    a_second = 1000 / timeline.coarse_ms
    consumers = sorted({row.consumer for row in timeline.reads})
    unit = [speaker.say("report.reads_unit")]
    if timeline.consumers_left_out:
        unit.append(speaker.say("report.consumers_left_out", count=timeline.consumers_left_out))
    chart = Chart(
        speaker.say("report.reads"),
        "; ".join(unit),
        timeline.span_ms,
        value_marks(max(row.records * a_second for row in timeline.reads)),
        short,
        height_px=100,
        description=speaker.say("report.reads_what"),
    )
    chart.bands(bands)
    for number, consumer in enumerate(consumers):
        series = _summed(
            (row.at_ms, row.records * a_second) for row in timeline.reads if row.consumer == consumer
        )
        chart.line(_gapless(series, timeline), f"c{number % 5}", consumer)
    return chart.figure()


# ---------------------------------------------------------------- series


def _summed(points: Iterable[tuple[int, float]]) -> dict[int, float]:
    sums: dict[int, float] = {}
    for at, value in points:
        sums[at] = sums.get(at, 0.0) + value
    return sums


def _gapless(series: dict[int, float], timeline: Timeline) -> list[Point]:
    """A bucket in which nothing was counted is a zero."""
    return [
        (at + timeline.coarse_ms / 2, series.get(at, 0.0))
        for at in range(0, timeline.span_ms, timeline.coarse_ms)
    ]


def _broken(series: dict[int, float], timeline: Timeline) -> list[Point]:
    """A bucket in which nothing was measured interrupts the line."""
    return [
        (at + timeline.coarse_ms / 2, series.get(at)) for at in range(0, timeline.span_ms, timeline.coarse_ms)
    ]
