"""A comparison of a topic with a table as one HTML file: completeness by day, duplicates, gaps, lateness. In
English and in Chinese, as the report of an audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog._version import __version__
from tidelog.errors import reason
from tidelog.narrate.phrasebook import Phrase
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.reconcile import words
from tidelog.pipeline.reconcile.facts import AbsenceCause, Presence
from tidelog.pipeline.report import in_languages
from tidelog.pipeline.report.html import Cell, Child, Children, Markup, el, numbers, table
from tidelog.pipeline.report.speaker import Speaker

if TYPE_CHECKING:
    from tidelog.pipeline.reconcile.result import Continuity, Day

_RANGES: Final = 200
_DAYS: Final = 400
_HEADS: Final = ("complete", "records", "lost", "twice", "different", "waiting")


def write_report(found: Continuity, name: str, path: Path) -> None:
    """`name` is the table as the reader knows it. Raises `PipelineError`."""
    try:
        path.write_text(render(found, name), "utf-8")
    except OSError as error:
        raise PipelineError(f"the report {path} cannot be written: {reason(error)}") from None


def render(found: Continuity, name: str) -> str:
    return in_languages(f"{found.topic} · {name}", lambda speaker: _page(found, name, speaker))


def _page(found: Continuity, name: str, speaker: Speaker) -> list[Markup]:
    parts: dict[str, Children] = {
        "table.days_section": _days(found.days, speaker),
        "table.ranges_section": _ranges(found, speaker),
        "table.causes_section": _causes(found, speaker),
        "table.unjudged_section": [
            *(el("p", each) for each in found.problems),
            *(el("p", speaker.book.say(each)) for each in found.not_checked),
        ],
    }
    sections = [el("section", el("h2", speaker.say(head)), part) for head, part in parts.items() if part]
    said = speaker.book.say(words.verdict(found))
    return [
        el(
            "header",
            el("p", f"{found.topic} → {name}", class_="eyebrow"),
            el("div", el("h1", said), class_=f"verdict {_state(found)}"),
        ),
        _numbers(found, speaker),
        el("main", sections),
        el("footer", f"tidelog {__version__} · ", speaker.say("table.source", source=found.source)),
    ]


def _state(found: Continuity) -> str:
    return "violated" if not found.held else "held" if found.conclusive else "unsaid"


def _numbers(found: Continuity, speaker: Speaker) -> Markup:
    say = speaker.say
    expected = sum(day.expected for day in found.days)
    gap, late = words.oldest_gap(found), words.lateness(found) or Phrase("table.nothing_late")
    oldest = say("table.oldest_gap", gap=gap) if gap else say("table.no_gap")
    facts = [
        (say("table.complete"), words.completeness(found) or "–", say("table.of_records", count=expected)),
        (say("table.lost"), f"{found.lost:,}", oldest),
        (say("table.twice"), f"{found.count(Presence.TWICE):,}", say("table.of_rows", count=found.rows)),
        (say("table.late"), f"{found.count(AbsenceCause.NOT_YET):,}", speaker.book.say(late)),
    ]
    if found.earlier_rows:
        facts.append((say("table.recreated"), f"{found.earlier_rows:,}", say("table.recreated_more")))
    return numbers(facts)


def _days(days: list[Day], speaker: Speaker) -> Children:
    if not days:
        return None
    rows: list[list[Child | Cell]] = [
        [
            day.day.isoformat() if day.day else speaker.say("table.no_time"),
            *(
                Cell(each, "n")
                for each in (
                    "–" if day.completeness is None else words.percent(day.completeness),
                    *(f"{n:,}" for n in (day.expected, day.lost, day.twice, day.different, day.waiting)),
                )
            ),
        ]
        for day in days[-_DAYS:]
    ]
    heads: list[Child | Cell] = [speaker.say("table.day")]
    heads += [Cell(speaker.say(f"table.{head}"), "n") for head in _HEADS]
    more = len(days) - _DAYS
    left_out = el("p", speaker.say("table.more_days", count=more), class_="soft") if more > 0 else None
    return [table(heads, rows), left_out]


def _ranges(found: Continuity, speaker: Speaker) -> Children:
    accused = found.accused_ranges
    if not accused:
        return None
    say = speaker.book.say
    rows: list[list[Child | Cell]] = []
    for each in accused[:_RANGES]:
        place, count = f"{found.topic}-{each.partition}", Cell(f"{each.offsets:,}", "n")
        offsets = words.offsets(each)
        span = Cell(offsets if isinstance(offsets, str) else say(offsets), "n")
        cause = each.cause and say(words.name(each.cause))
        rows.append([place, span, count, say(words.name(each.presence)), cause])
    heads: list[Child | Cell] = [
        speaker.say("table.partition"),
        Cell(speaker.say("table.offsets"), "n"),
        Cell(speaker.say("table.how_many"), "n"),
        speaker.say("table.in_table"),
        speaker.say("table.cause"),
    ]
    more = len(accused) - _RANGES
    return [table(heads, rows), el("p", speaker.say("table.more_ranges", count=more)) if more > 0 else None]


def _causes(found: Continuity, speaker: Speaker) -> Children:
    rows: list[list[Child | Cell]] = [
        [Cell(f"{size:,}", "n"), speaker.book.say(cause)] for size, cause in words.causes(found)
    ]
    heads: list[Child | Cell] = [Cell(speaker.say("table.offsets"), "n"), speaker.say("table.cause")]
    return table(heads, rows) if rows else None
