"""How far the logs of a partition were, as their brokers reported it, and where each replica ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.narrate.numbers import moment, number, short
from tidelog.pipeline.report.charts import Band, Chart, Point
from tidelog.pipeline.report.html import Cell, Markup, el, key, table
from tidelog.pipeline.report.lanes import colour_of, story_name
from tidelog.pipeline.report.scale import value_marks
from tidelog.pipeline.report.speaker import Speaker
from tidelog.pipeline.report.timeline import OffsetPoint, PartitionStory, ReplicaEnd

_TRUNCATIONS_MAX: Final = 60
_BROKERS_MAX: Final = 12


def offset_chart(
    story: PartitionStory, span_ms: int, bands: Sequence[Band], speaker: Speaker
) -> Markup | None:
    """The committed end as each leader reported it, the log ends that are known, and what was cut off."""
    values = [
        value
        for point in story.offsets
        for value in (point.log_end_offset, point.high_watermark)
        if value is not None
    ]
    if not values:
        return None
    values += [cut.before for cut in story.truncations]
    name = story_name(story)
    chart = Chart(
        speaker.say("report.offsets_of", partition=name),
        speaker.say("report.offsets_unit"),
        span_ms,
        value_marks(max(values)),
        short,
        height_px=150,
        description=speaker.say("report.offsets_what", partition=name),
    )
    chart.bands(bands)
    brokers = sorted({point.broker for point in story.offsets})[:_BROKERS_MAX]
    for broker in brokers:
        _committed(chart, broker, story.offsets, speaker)
        _ends(chart, broker, [point for point in story.offsets if point.broker == broker])
    for cut in sorted(story.truncations, key=lambda cut: cut.after - cut.before)[:_TRUNCATIONS_MAX]:
        title = speaker.say(
            "report.truncation",
            broker=cut.broker,
            before=number(cut.before),
            after=number(cut.after),
            at=moment(cut.at_ms),
            why=cut.cause,
        )
        x = chart.x(cut.at_ms)
        chart.shapes.append(
            el("path", el("title", title), d=f"M{x} {chart.y(cut.before)}V{chart.y(cut.after)}", class_="cut")
        )
    if story.truncations:
        chart.legend.append(key("cut", speaker.say("report.truncated")))
    if any(point.log_end_offset is not None for point in story.offsets):
        chart.legend.append(key("dot", speaker.say("report.log_end")))
    return chart.figure()


def _committed(chart: Chart, broker: int, points: Sequence[OffsetPoint], speaker: Speaker) -> None:
    """A line for as long as it leads: where another one tells, it is interrupted."""
    line: list[Point] = [
        (float(p.at_ms), float(p.high_watermark) if p.broker == broker else None)
        for p in points
        if p.high_watermark is not None
    ]
    if any(value is not None for _, value in line):
        chart.line(line, f"hw {colour_of(broker)}", speaker.say("report.hw_of", broker=broker), steps=True)


def _ends(chart: Chart, broker: int, points: Sequence[OffsetPoint]) -> None:
    """A line of no length with round ends is a dot, which stays round when the picture is stretched."""
    dots = "".join(
        f"M{chart.x(p.at_ms)} {chart.y(p.log_end_offset)}h0" for p in points if p.log_end_offset is not None
    )
    if dots:
        chart.shapes.append(el("path", d=dots, class_=f"dots {colour_of(broker)}"))


def replica_table(stories: Sequence[PartitionStory], speaker: Speaker) -> Markup | None:
    """Where every replica ended: those of a partition that ended alike in one row."""
    rows = []
    for story in stories:
        longest = max((r.log_end_offset or 0 for r in story.replicas), default=0)
        alike: dict[tuple[object, ...], list[ReplicaEnd]] = {}
        for replica in story.replicas:
            facts = (
                replica.log_start_offset,
                replica.log_end_offset,
                replica.high_watermark,
                replica.in_sync,
            )
            alike.setdefault(facts, []).append(replica)
        for same in alike.values():
            rows.append(
                _replica_row(story_name(story), same, longest - (same[0].log_end_offset or 0), speaker)
            )
    if not rows:
        return None
    figures = ("report.start", "report.end", "report.committed")
    heads: tuple[str | Cell, ...] = (
        *(speaker.say(head) for head in ("report.partition", "report.replicas_on")),
        *(Cell(speaker.say(head), "n") for head in figures),
        "",
    )
    return table(heads, rows)


def _replica_row(
    name: str, same: Sequence[ReplicaEnd], behind: int, speaker: Speaker
) -> tuple[str | Cell, ...]:
    one = same[0]
    brokers = [
        el("span", el("i", class_=f"key leader {colour_of(r.broker)}"), str(r.broker), class_="replica")
        for r in same
    ]
    words = [speaker.say("report.in_sync" if one.in_sync else "report.not_in_sync")]
    if behind:
        words.append(speaker.say("report.shorter", count=behind))
    figures = (one.log_start_offset, one.log_end_offset, one.high_watermark)
    return (
        name,
        Cell(brokers, "one-line"),
        *(Cell(number(figure), "n") for figure in figures),
        speaker.listed(words),
    )
