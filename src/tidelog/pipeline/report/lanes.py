"""Lanes: what was done to each broker, and who led each partition with how many in sync.

A lane is one row of a picture that shares the time axis of the charts. What is drawn in it is a rectangle
with a description; where there is room, its name is written on it in HTML, so that it keeps its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Final, TypeVar

from tidelog.faults.targets import said
from tidelog.narrate.numbers import moment
from tidelog.narrate.numbers import number as number_words
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
from tidelog.pipeline.report.speaker import Speaker
from tidelog.pipeline.report.timeline import FaultSpan, PartitionStory, StateSpan, Timeline, Window

SPANS_MAX: Final = 40
"""Spans in one lane; the shortest are left out beyond that."""
BROKERS_MAX: Final = 24
_BROKER_COLOURS: Final = 6
_LABEL_PER_CENT: Final = 0.6
"""What a letter takes of the width, and as much again for the edges."""
_DIGIT_PER_CENT: Final = 2.4
"""What a digit takes of the width of a phone."""
_LISTED_MAX: Final = 24
_WORDS_MAX: Final = 120
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
        left, right = (min(ms / self.span_ms, 1.0) for ms in span)
        width = (right - left) * WIDTH
        drawn = max(width, _THIN)
        self.shapes.append(
            el(
                "rect",
                el("title", title),
                x=compact(min(left * WIDTH, WIDTH - drawn)),
                width=compact(drawn),
                y=f"{(row + band[0]) * unit:.2f}",
                height=f"{(band[1] - band[0]) * unit:.2f}",
                class_=style if width > _THIN else f"{style} thin",
            )
        )
        room = (right if text_to is None else text_to / self.span_ms) * 100 - left * 100
        if text and room >= _LABEL_PER_CENT * (len(text) + 1):
            place = f"left:{compact(left * 100)}%;width:{compact(room)}%;top:{row * self.row_px}px"
            self.labels.append(el("span", text, style=place, class_=f"on {style}"))

    def number(self, row: int, span: tuple[int, int], room_to: int, text: str, more: str) -> None:
        """A number at the beginning of a bar, which has room on a phone; a wide page says more."""
        left, right, end = (ms / self.span_ms * 100 for ms in (*span, room_to))
        if end - left < _DIGIT_PER_CENT * len(text) + 1:
            return
        fits = min(right, end) - left >= _LABEL_PER_CENT * (len(text) + len(more) + 3)
        place = f"left:{compact(left)}%;top:{row * self.row_px}px"
        self.labels.append(
            el(
                "span",
                el("b", text),
                el("span", f" {more}") if fits else None,
                style=place,
                class_="on fault",
            )
        )

    def name(self, row: int, text: str, title: str = "", place: str | None = None) -> None:
        top = f"top:{(row + 0.5) * self.row_px}px"
        self.names.append(el("span", text, style=top, title=title or None, id=place))

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
    return said(fault.kind, fault.targets)


def _lasted(fault: FaultSpan, span_ms: int) -> tuple[int, int] | None:
    if fault.from_ms is None:
        return None
    return fault.from_ms, span_ms if fault.to_ms is None else fault.to_ms


def fault_lanes(timeline: Timeline, brokers: Sequence[dict[str, Any]], speaker: Speaker) -> Markup | None:
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
        lanes.name(row, speaker.say("report.broker", broker=name) if name.isdecimal() else name)
        for (fault, span), after in zip_longest(rows[name], rows[name][1:]):
            style = "fault" if span[1] > span[0] else "fault point"
            lanes.bar(row, span, style, _fault_when(fault, span, speaker))
            # What begins before this ends is drawn over it, and its number must not be.
            room_to = timeline.span_ms if after is None else after[1][0]
            lanes.number(row, span, room_to, str(fault.number), fault.kind)
    unit = [speaker.say("report.fault_count", count=len(done))]
    if len(order) > len(shown):
        unit.append(speaker.say("report.lanes_left_out", count=len(order) - len(shown)))
    what = speaker.say("report.fault_lanes_what")
    figure = lanes.figure(speaker.say("report.fault_lanes"), "; ".join(unit), what, (), ())
    return join(figure, _fault_list(done, speaker))


def _fault_when(fault: FaultSpan, span: tuple[int, int], speaker: Speaker) -> str:
    times = {"start": moment(span[0]), "end": moment(span[1])}
    return speaker.say("report.fault_when", fault=fault_words(fault), **times)


def _fault_list(done: list[tuple[FaultSpan, tuple[int, int]]], speaker: Speaker) -> Markup:
    """What the numbers in the lanes mean, in letters of full size."""
    items = [
        el("li", el("b", str(fault.number)), " ", _fault_when(fault, span, speaker)[:_WORDS_MAX])
        for fault, span in done[:_LISTED_MAX]
    ]
    more = len(done) - len(items)
    if more:
        text = speaker.say("report.more_faults", count=more)
        items.append(el("li", el("a", text, href=f"#{speaker.anchor('schedule')}")))
    return el("ol", items, class_="faults")


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


def partition_lanes(
    timeline: Timeline, replication: dict[str, tuple[int, int]], speaker: Speaker
) -> Markup | None:
    """`replication`: for each topic how many replicas, and how many must be in sync for acks=all."""
    numbered = [
        (number, story)
        for number, story in enumerate(timeline.partitions)
        if story.states or story.unavailable
    ]
    stories = [story for _, story in numbered]
    if not stories:
        return None
    lanes = _Lanes(timeline.span_ms, len(stories), _LANE_PX)
    for row, (number, story) in enumerate(numbered):
        written = speaker.say("report.states_written", partition=story_name(story), count=story.changes)
        lanes.name(row, story_name(story), written, speaker.anchor(f"lane-{number}"))
        _leaders(lanes, row, story, speaker)
        _in_sync(lanes, row, story, *replication.get(story.topic, (0, 0)), speaker)
        for window in _longest(story.unavailable):
            facts = {"partition": story_name(story), "why": window.detail, "when": _when(window, speaker)}
            title = speaker.say("report.window", **facts)
            lanes.bar(row, (window.from_ms, window.to_ms), "silent", title, band=(0.06, 0.17))
    shown, all_ = len(stories), len(stories) + timeline.partitions_left_out
    return lanes.figure(
        speaker.say("report.partition_lanes"),
        speaker.say("report.worst_partitions", count=shown, all=number_words(all_))
        if all_ > shown
        else speaker.say("report.per_partition"),
        speaker.say("report.partition_lanes_what"),
        _legend({span.leader for story in stories for span in story.states}, speaker),
        fault_bands(timeline),
    )


def _when(span: StateSpan | Window, speaker: Speaker) -> str:
    start, end, lasted = (moment(ms) for ms in (span.from_ms, span.to_ms, span.to_ms - span.from_ms))
    return speaker.say("report.span", start=start, end=end, duration=lasted)


def _leaders(lanes: _Lanes, row: int, story: PartitionStory, speaker: Speaker) -> None:
    for span in _merged(story.states, lambda span: (span.leader, span.epoch)):
        none = span.leader < 0
        title = speaker.say(
            "report.leader_span",
            partition=story_name(story),
            leader=speaker.say("report.no_leader" if none else "report.leads", broker=span.leader),
            epoch=span.epoch,
            when=_when(span, speaker),
        )
        text = speaker.say("report.no_leader_label") if none else str(span.leader)
        lanes.bar(
            row,
            (span.from_ms, span.to_ms),
            f"leader {colour_of(span.leader)}",
            title,
            text=text,
            band=(0.2, 0.68),
        )


def _in_sync(  # noqa: PLR0917
    lanes: _Lanes, row: int, story: PartitionStory, replicas: int, wanted: int, speaker: Speaker
) -> None:
    """A strip where not all are in sync: the more are missing, the thicker."""
    replicas = max([replicas, *(len(span.isr) for span in story.states), 1])
    for span in _merged(story.states, lambda span: frozenset(span.isr)):
        missing = replicas - len(span.isr)
        if missing:
            isr = speaker.listed([str(broker) for broker in sorted(span.isr)])
            title = speaker.say(
                "report.isr_span" if isr else "report.isr_none",
                partition=story_name(story),
                isr=isr,
                when=_when(span, speaker),
            )
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


def _legend(leaders: set[int], speaker: Speaker) -> list[Markup]:
    keys = [
        key(
            f"leader {colour_of(broker)}",
            speaker.say("report.no_leader" if broker < 0 else "report.broker", broker=broker),
        )
        for broker in sorted(leaders)[:12]
    ]
    more = (
        ("isr few", "report.isr_few"),
        ("isr toofew", "report.isr_too_few"),
        ("silent", "report.no_service"),
    )
    return [*keys, *(key(style, speaker.say(text)) for style, text in more)]


def story_name(story: PartitionStory) -> str:
    return f"{story.topic}-{story.partition}"
