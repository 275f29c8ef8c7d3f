"""The charts of the load: sends and acknowledgements, how long they took, what consumers read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from tidelog.narrate.numbers import moment, short
from tidelog.pipeline.report.charts import Band, Chart, Point
from tidelog.pipeline.report.html import Markup
from tidelog.pipeline.report.scale import decades, value_marks
from tidelog.pipeline.report.timeline import Timeline

_ACKS: Final = {-1: "acks=all", 1: "acks=1", 0: "acks=0"}
_MS_MIN: Final = 0.1


def acks_name(acks: int) -> str:
    return _ACKS.get(acks, f"acks={acks}")


def throughput(timeline: Timeline, bands: Sequence[Band]) -> Markup | None:
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
        "Throughput",
        "records per second",
        timeline.span_ms,
        value_marks(high),
        short,
        description="Records sent and acknowledged per second over time",
    )
    chart.bands(bands)
    chart.area(sorted(all_ok.items()), timeline.coarse_ms, "ok", "acknowledged")
    if len(per_acks) > 1:
        for acks, series in per_acks.items():
            style = f"acks{'all' if acks == -1 else acks}"
            chart.line(_gapless(series, timeline), style, f"of them with {acks_name(acks)}")
    chart.line(_gapless(sent, timeline), "sent", "sent")
    if any(bad.values()):
        chart.area(sorted(bad.items()), timeline.coarse_ms, "bad", "failed or unknown in the end")
    return chart.figure()


def trouble(timeline: Timeline, bands: Sequence[Band]) -> Markup | None:
    """When the records were sent or read whose promise was broken."""
    if not timeline.found:
        return None
    kinds = sorted({row.anomaly for row in timeline.found})
    total = _summed((row.at_ms, float(row.count)) for row in timeline.found)
    names = ", ".join(kinds)
    chart = Chart(
        "Broken promises",
        f"records in {moment(timeline.coarse_ms)}",
        timeline.span_ms,
        value_marks(max(total.values())),
        short,
        height_px=90,
        description=f"When records were hit: {names}",
    )
    chart.bands(bands)
    chart.area(sorted(total.items()), timeline.coarse_ms, "lost", names)
    return chart.figure()


def latency(timeline: Timeline, bands: Sequence[Band]) -> Markup | None:
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
        "Time to acknowledgement",
        "by when it was sent; logarithmic",
        timeline.span_ms,
        decades(max(min(median.values()), _MS_MIN), max(worst.values())),
        lambda ms: moment(ms) if ms >= 1 else f"{ms:g} ms",
        up=lambda ms: math.log10(max(ms, 1e-6)),
        description="Median and 99th percentile of the time to an acknowledgement, over time",
    )
    chart.bands(bands)
    chart.line(_broken(worst, timeline), "p99", "99 %")
    chart.line(_broken(median, timeline), "p50", "median")
    return chart.figure()


def reads(timeline: Timeline, bands: Sequence[Band]) -> Markup | None:
    if not timeline.reads:
        return None
    a_second = 1000 / timeline.coarse_ms
    consumers = sorted({row.consumer for row in timeline.reads})
    more = f"; {timeline.consumers_left_out} more consumers left out" if timeline.consumers_left_out else ""
    chart = Chart(
        "Reads",
        f"records per second, by consumer{more}",
        timeline.span_ms,
        value_marks(max(row.records * a_second for row in timeline.reads)),
        short,
        height_px=100,
        description="Records read per second over time, by consumer",
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
