"""Lanes: what was done to each broker, and who led each partition with how many in sync.

A lane is one row of a picture that shares the time axis of the charts. What is drawn in it is a rectangle
with a description; where there is room, its name is written on it in HTML, so that it keeps its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Final, TypeVar

from tidelog.narrate.numbers import counted, moment
from tidelog.pipeline.report.charts import (
    HEIGHT,
    WIDTH,
    Band,
    band_shapes,
    compact,
    framed,
    picture,
    time_axis,
)
from tidelog.pipeline.report.html import Markup, el, join, key
from tidelog.pipeline.report.timeline import FaultSpan, PartitionStory, StateSpan, Timeline, Window

SPANS_MAX: Final = 40
"""Spans in one lane; the shortest are left out beyond that."""
BROKERS_MAX: Final = 24
_BROKER_COLOURS: Final = 6
_LABEL_PER_CENT: Final = 0.6
"""What a letter takes of the width, and as much again for the edges."""
_THIN: Final = 3
_LANE_PX: Final = 34
_FAULT_LANE_PX: Final = 22


def colour_of(broker: int) -> str:
    """The class of a broker's colour, the same in every picture."""
    return "none" if broker < 0 else f"b{broker % _BROKER_COLOURS}"


@dataclass(slots=True)
class _Lanes:
    """Rows of equal height, filled from the top."""

    span_ms: int
    rows: int
    row_px: int
    shapes: list[Markup] = field(default_factory=list)
    names: list[Markup] = field(default_factory=list)
    labels: list[Markup] = field(default_factory=list)

    def bar(
        self,
        row: int,
        span: tuple[int, int],
        style: str,
        title: str,
        *,
        text: str = "",
        text_to: int | None = None,
        band: tuple[float, float] = (0.1, 0.9),
    ) -> None:
        """A rectangle in a row, between two heights of it (0 is its top)."""
        unit = HEIGHT / self.rows
        left, right = (ms / self.span_ms for ms in span)
        width = (right - left) * WIDTH
        self.shapes.append(
            el(
                "rect",
                el("title", title),
                x=compact(left * WIDTH),
                width=compact(max(width, _THIN)),
                y=f"{(row + band[0]) * unit:.2f}",
                height=f"{(band[1] - band[0]) * unit:.2f}",
                class_=style if width > _THIN else f"{style} thin",
            )
        )
        room = (right if text_to is None else text_to / self.span_ms) * 100 - left * 100
        if text and room >= _LABEL_PER_CENT * (len(text) + 1):
            place = f"left:{compact(left * 100)}%;width:{compact(room)}%;top:{row * self.row_px}px"
            self.labels.append(el("span", text, style=place, class_=f"on {style}"))

    def name(self, row: int, text: str, title: str = "") -> None:
        self.names.append(el("span", text, style=f"top:{(row + 0.5) * self.row_px}px", title=title or None))

    def figure(
        self, title: str, unit: str, description: str, legend: Sequence[Markup], bands: Iterable[Band]
    ) -> Markup:
        lines = [
            el(
                "line",
                x1=0,
                x2=WIDTH,
                y1=f"{row * HEIGHT / self.rows:.2f}",
                y2=f"{row * HEIGHT / self.rows:.2f}",
                class_="grid",
            )
            for row in range(self.rows + 1)
        ]
        plot = picture(
            join(band_shapes(bands, self.span_ms), lines, self.shapes), description, self.rows * self.row_px
        )
        return framed(
            title,
            unit,
            side=el("div", self.names, class_="y names"),
            plot=join(plot, el("div", self.labels, class_="labels", aria_hidden="true")),
            axis=time_axis(self.span_ms),
            legend=legend,
        )


# ---------------------------------------------------------------- faults


def fault_bands(timeline: Timeline) -> list[Band]:
    return [span for fault in timeline.faults if (span := _lasted(fault, timeline.span_ms)) is not None]


def fault_words(fault: FaultSpan) -> str:
    return f"{fault.kind} {', '.join(fault.targets)}".rstrip()


def _lasted(fault: FaultSpan, span_ms: int) -> tuple[int, int] | None:
    if fault.from_ms is None:
        return None
    return fault.from_ms, span_ms if fault.to_ms is None else fault.to_ms


def fault_lanes(timeline: Timeline, brokers: Sequence[dict[str, Any]]) -> Markup | None:
    """One lane for each broker that something was done to, and one for what concerns no single broker."""
    done = [(fault, span) for fault in timeline.faults if (span := _lasted(fault, timeline.span_ms))]
    if not done:
        return None
    zones: dict[str, list[str]] = {}
    for broker in brokers:
        zones.setdefault(str(broker.get("zone")), []).append(str(broker.get("id")))
    rows: dict[str, list[tuple[FaultSpan, tuple[int, int]]]] = {}
    for fault, span in done:
        for name in _concerned(fault, zones):
            rows.setdefault(name, []).append((fault, span))
    order = sorted(rows, key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name))
    shown = order[:BROKERS_MAX]
    lanes = _Lanes(timeline.span_ms, len(shown), _FAULT_LANE_PX)
    for row, name in enumerate(shown):
        lanes.name(row, f"broker {name}" if name.isdecimal() else name)
        for (fault, span), after in zip_longest(rows[name], rows[name][1:]):
            title = f"{fault_words(fault)}, {moment(span[0])} to {moment(span[1])}"
            # What begins before this ends is drawn over it, and its name must not be.
            until = span[1] if after is None else min(span[1], after[1][0])
            style = "fault" if span[1] > span[0] else "fault point"
            lanes.bar(row, span, style, title, text=fault.kind, text_to=until)
    unit = counted(len(done), "fault") + (
        f"; {len(order) - len(shown)} more lanes left out" if len(order) > len(shown) else ""
    )
    return lanes.figure("Faults", unit, "What was done to each broker, and when", (), ())


def _concerned(fault: FaultSpan, zones: dict[str, list[str]]) -> list[str]:
    """The lanes in which a fault is drawn: its brokers and keepers. A target that says how much is passed
    over; what names no broker has a lane of its own."""
    names: dict[str, None] = {}
    for target in fault.targets:
        for end in target.split(">"):
            if end in zones:
                names.update(dict.fromkeys(zones[end]))
            elif end.isdecimal() or end.startswith("keeper"):
                names[end] = None
    return list(names) or [fault.kind]


# ---------------------------------------------------------------- partitions


def partition_lanes(timeline: Timeline, replication: dict[str, tuple[int, int]]) -> Markup | None:
    """`replication`: for each topic how many replicas, and how many must be in sync for acks=all."""
    stories = [story for story in timeline.partitions if story.states or story.unavailable]
    if not stories:
        return None
    lanes = _Lanes(timeline.span_ms, len(stories), _LANE_PX)
    for row, story in enumerate(stories):
        lanes.name(
            row, story_name(story), f"{story_name(story)}: state written {counted(story.changes, 'time')}"
        )
        _leaders(lanes, row, story)
        _in_sync(lanes, row, story, *replication.get(story.topic, (0, 0)))
        for window in _longest(story.unavailable):
            title = f"{story_name(story)}: {window.detail}, {_when(window.from_ms, window.to_ms)}"
            lanes.bar(row, (window.from_ms, window.to_ms), "silent", title, band=(0.06, 0.17))
    shown, all_ = len(stories), len(stories) + timeline.partitions_left_out
    return lanes.figure(
        "Leaders and in-sync replicas",
        f"the worst {shown} of {all_} partitions" if all_ > shown else "per partition",
        "Who led each partition over time, how many replicas were in sync, and when it could not be written",
        _legend({span.leader for story in stories for span in story.states}),
        fault_bands(timeline),
    )


def _when(from_ms: int, to_ms: int) -> str:
    return f"{moment(from_ms)} to {moment(to_ms)} ({moment(to_ms - from_ms)})"


def _leaders(lanes: _Lanes, row: int, story: PartitionStory) -> None:
    for span in _merged(story.states, lambda span: (span.leader, span.epoch)):
        who = "no leader" if span.leader < 0 else f"broker {span.leader} leads"
        title = f"{story_name(story)}: {who} in epoch {span.epoch}, {_when(span.from_ms, span.to_ms)}"
        text = "none" if span.leader < 0 else str(span.leader)
        lanes.bar(
            row,
            (span.from_ms, span.to_ms),
            f"leader {colour_of(span.leader)}",
            title,
            text=text,
            band=(0.2, 0.68),
        )


def _in_sync(lanes: _Lanes, row: int, story: PartitionStory, replicas: int, wanted: int) -> None:
    """A strip where not all are in sync: the more are missing, the thicker."""
    replicas = max([replicas, *(len(span.isr) for span in story.states), 1])
    for span in _merged(story.states, lambda span: frozenset(span.isr)):
        missing = replicas - len(span.isr)
        if missing:
            isr = ",".join(map(str, sorted(span.isr)))
            title = f"{story_name(story)}: in sync only [{isr}], {_when(span.from_ms, span.to_ms)}"
            style = "isr few" if len(span.isr) >= wanted else "isr toofew"
            height = 0.07 + 0.14 * missing / replicas
            lanes.bar(row, (span.from_ms, span.to_ms), style, title, band=(0.72, 0.72 + height))


def _merged(spans: list[StateSpan], alike: Callable[[StateSpan], object]) -> list[StateSpan]:
    """What follows each other and is alike in this respect, as one; beyond a bound only the longest."""
    merged: list[StateSpan] = []
    for span in spans:
        if merged and alike(merged[-1]) == alike(span):
            merged[-1] = replace(merged[-1], to_ms=span.to_ms)
        else:
            merged.append(span)
    return _longest(merged)


_Span = TypeVar("_Span", StateSpan, Window)


def _longest(spans: list[_Span]) -> list[_Span]:
    """All of them, or the longest in their order."""
    if len(spans) <= SPANS_MAX:
        return spans
    kept = sorted(spans, key=lambda span: span.from_ms - span.to_ms)[:SPANS_MAX]
    return sorted(kept, key=lambda span: span.from_ms)


def _legend(leaders: set[int]) -> list[Markup]:
    keys = [
        key(f"leader {colour_of(broker)}", "no leader" if broker < 0 else f"broker {broker}")
        for broker in sorted(leaders)[:12]
    ]
    more = (("isr few", "not all in sync"), ("isr toofew", "too few for acks=all"), ("silent", "no service"))
    return [*keys, *(key(style, text) for style, text in more)]


def story_name(story: PartitionStory) -> str:
    return f"{story.topic}-{story.partition}"
