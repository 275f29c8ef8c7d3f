"""A topic against a table as text and as JSON: verdict, completeness by day, duplicates, gaps, lateness."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.cli.show import palette
from tidelog.cli.show.audit import Page
from tidelog.cli.show.output import console, write_json, write_lines
from tidelog.narrate.numbers import counted
from tidelog.narrate.phrasebook import say
from tidelog.pipeline.reconcile import words

if TYPE_CHECKING:
    from rich.text import Text

    from tidelog.pipeline.reconcile.facts import OffsetRange
    from tidelog.pipeline.reconcile.result import Continuity, Day

_RANGES = 10
_DAYS = 31


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
    yield from page.line("verdict", say(words.verdict(found)), style)
    for label, text in _facts(found):
        yield from page.line(label, text)
    for number, day in enumerate(found.days[-_DAYS:]):
        yield from page.line("" if number else "by day", _day(day))
    accused = found.accused_ranges
    for number, each in enumerate(accused[:_RANGES]):
        yield from page.line("" if number else "ranges", _range(found.topic, each), palette.BAD)
    if len(accused) > _RANGES:
        yield from page.line("", f"and {len(accused) - _RANGES:,} more: see --json")
    for number, text in enumerate([*found.problems[:_RANGES], *map(say, found.not_checked)]):
        yield from page.line("" if number else "not checked", text)


def _facts(found: Continuity) -> Iterator[tuple[str, str]]:
    if complete := words.completeness(found):
        yield "complete", f"{complete} of {sum(day.expected for day in found.days):,} records"
    for number, (size, cause) in enumerate(words.causes(found)):
        yield "" if number else "absent", f"{size:,} {say(cause)}"
    if found.earlier_rows:
        yield "recreated", f"{found.earlier_rows:,} rows of a topic that was deleted and created again"
    if gap := words.oldest_gap(found):
        yield "oldest gap", say(gap)
    if late := words.lateness(found):
        yield "late", say(late)
    if found.earlier_accused:
        yield "earlier runs", f"{counted(found.earlier_accused, 'offset')} against the pipeline"


def _range(topic: str, found: OffsetRange) -> str:
    place = words.offsets(found)
    said = f"{topic}-{found.partition} {place if isinstance(place, str) else say(place)}: {found.presence}"
    return f"{said}, {found.cause}" if found.cause else said


def _day(day: Day) -> str:
    name = day.day.isoformat() if day.day else "no time   "
    complete = "–" if day.completeness is None else words.percent(day.completeness)
    return (
        f"{name} {complete:>9} · {day.expected:,} records · {day.lost:,} lost · {day.twice:,} twice · "
        f"{day.waiting:,} waiting"
    )
