"""A topic against a table as text and as JSON: verdict, completeness by day, duplicates, gaps, lateness."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from tidelog.cli.show import palette
from tidelog.cli.show.audit import Page
from tidelog.cli.show.output import console, write_json, write_lines
from tidelog.narrate.numbers import counted
from tidelog.pipeline.reconcile.facts import LOSSES, AbsenceCause, OffsetRange, Presence

if TYPE_CHECKING:
    from rich.text import Text

    from tidelog.pipeline.reconcile.result import Continuity, Day

_RANGES = 10
_DAYS = 31

_FAULTS = {
    Presence.TWICE: "twice",
    Presence.DIFFERENT: "with other bytes",
    Presence.UNCOMMITTED: "of aborted transactions or control records",
    Presence.BEYOND_END: "beyond the end of the topic",
}


def present(found: Continuity, table: str, *, as_json: bool = False) -> None:
    if as_json:
        write_json({"table": table, **found.as_object()})
        return
    screen = console()
    write_lines(screen, _lines(Page(screen), found, table))


def _lines(page: Page, found: Continuity, table: str) -> Iterator[Text]:
    parts = counted(len(found.partitions), "partition")
    yield from page.line(
        "topic", f"{found.topic} · {parts} · {found.offsets:,} offsets · from {found.source}"
    )
    yield from page.line("table", f"{table} · {found.rows:,} rows")
    style = palette.BAD if not found.held else palette.GOOD if found.conclusive else palette.WARNING
    yield from page.line("verdict", _verdict(found), style)
    for label, words in _facts(found):
        yield from page.line(label, words)
    for number, day in enumerate(found.days[-_DAYS:]):
        yield from page.line("" if number else "by day", _day(day))
    accused = found.accused_ranges
    for number, each in enumerate(accused[:_RANGES]):
        yield from page.line("" if number else "ranges", _range(found.topic, each), palette.BAD)
    if len(accused) > _RANGES:
        yield from page.line("", f"and {len(accused) - _RANGES:,} more: see --json")
    for number, words in enumerate([*found.problems[:_RANGES], *found.unjudged]):
        yield from page.line("" if number else "not checked", words)


def _verdict(found: Continuity) -> str:
    if found.held:
        if not found.conclusive:
            return "Inconclusive: a part of the topic cannot be read."
        if not found.offsets:
            return "Nothing new to judge."
        return "The table has every committed record of the topic that it should have by now, once."
    faults = []
    if found.lost:
        faults.append(f"{counted(found.lost, 'offset')} lost in the pipeline")
    faults += [f"{found.count(kind):,} {words}" for kind, words in _FAULTS.items() if found.count(kind)]
    if found.nowhere:
        faults.append(f"{counted(found.nowhere, 'row')} without a partition or an offset")
    return f"The table does not equal its topic: {', '.join(faults)}."


def _facts(found: Continuity) -> Iterator[tuple[str, str]]:
    expected = sum(day.expected for day in found.days)
    if expected:
        delivered = sum(day.delivered for day in found.days)
        yield "complete", f"{_percent(delivered / expected)} of {expected:,} records"
    absent = [(cause, found.count(cause)) for cause in AbsenceCause if found.count(cause)]
    for number, (cause, size) in enumerate(sorted(absent, key=lambda each: each[0] not in LOSSES)):
        words = f"{cause}: lost in the pipeline" if cause is AbsenceCause.UNEXPLAINED else str(cause)
        yield "" if number else "absent", f"{size:,} {words}"
    if gap := found.oldest_gap:
        partition, offset, time = gap
        when = f", {time:%Y-%m-%d %H:%M} UTC" if time else ""
        yield "oldest gap", f"{found.topic}-{partition} offset {offset:,}{when}"
    if waiting := found.count(AbsenceCause.NOT_YET):
        late = timedelta(seconds=int(found.late_seconds))
        yield "late", f"{counted(waiting, 'offset')} not yet in the table, the oldest {late} behind the topic"
    if found.earlier_accused:
        yield "earlier runs", f"{counted(found.earlier_accused, 'offset')} against the pipeline"


def _day(day: Day) -> str:
    name = day.day.isoformat() if day.day else "no time   "
    complete = "–" if day.completeness is None else _percent(day.completeness)
    return (
        f"{name} {complete:>9} · {day.expected:,} records · {day.lost:,} lost · {day.twice:,} twice · "
        f"{day.waiting:,} waiting"
    )


def _percent(part: float) -> str:
    """Never 100 % unless it is."""
    return "100 %" if part >= 1 else f"{min(part * 100, 99.9999):.4f} %"


def _range(topic: str, found: OffsetRange) -> str:
    offsets = f"{found.start:,}" if found.offsets == 1 else f"{found.start:,} to {found.end - 1:,}"
    return f"{topic}-{found.partition} {offsets}: {found.presence}" + (
        f", {found.cause}" if found.cause else ""
    )
