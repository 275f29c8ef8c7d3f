"""A comparison of a topic with a table as one HTML file: completeness by day, duplicates, gaps, lateness."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog._version import __version__
from tidelog.errors import reason
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.reconcile import words
from tidelog.pipeline.reconcile.facts import AbsenceCause, Presence
from tidelog.pipeline.report import style
from tidelog.pipeline.report.html import Cell, Child, Children, Markup, el, numbers, page, table

if TYPE_CHECKING:
    from tidelog.pipeline.reconcile.result import Continuity, Day

_RANGES: Final = 200
_DAYS: Final = 400
_HEADS: Final = ("day (UTC)", "complete", "records", "lost", "twice", "other bytes", "waiting")


def write_report(found: Continuity, name: str, path: Path) -> None:
    """`name` is the table as the reader knows it. Raises `PipelineError`."""
    try:
        path.write_text(render(found, name), "utf-8")
    except OSError as error:
        raise PipelineError(f"the report {path} cannot be written: {reason(error)}") from None


def render(found: Continuity, name: str) -> str:
    said = words.verdict(found)
    parts: dict[str, Children] = {
        "Completeness by day": _days(found.days),
        "Against the pipeline": _ranges(found),
        "Why offsets are absent": _causes(found),
        "Not checked": [el("p", each) for each in [*found.problems, *found.unjudged]],
    }
    return page(
        f"{found.topic} · {name}",
        style(),
        el(
            "header",
            el("p", f"{found.topic} → {name}", class_="eyebrow"),
            el("div", el("h1", said), class_=f"verdict {_state(found)}"),
        ),
        _numbers(found),
        el("main", [el("section", el("h2", head), part) for head, part in parts.items() if part]),
        el("footer", f"tidelog {__version__} · topic from {found.source}"),
    )


def _state(found: Continuity) -> str:
    return "violated" if not found.held else "held" if found.conclusive else "unsaid"


def _numbers(found: Continuity) -> Markup:
    expected = sum(day.expected for day in found.days)
    gap, late = words.oldest_gap(found), words.lateness(found)
    return numbers(
        [
            ("complete", words.completeness(found) or "–", f"of {expected:,} records"),
            ("lost", f"{found.lost:,}", (gap and f"oldest gap: {gap}") or "no unexplained gap"),
            ("twice", f"{found.count(Presence.TWICE):,}", f"of {found.rows:,} rows"),
            ("late", f"{found.count(AbsenceCause.NOT_YET):,}", late or "nothing is waited for"),
            *(
                [("recreated", f"{found.earlier_rows:,}", "rows of a topic that was deleted")]
                if found.earlier_rows
                else []
            ),
        ]
    )


def _days(days: list[Day]) -> Children:
    if not days:
        return None
    rows: list[list[Child | Cell]] = [
        [
            day.day.isoformat() if day.day else "no time",
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
    left_out = f"The {len(days) - _DAYS:,} days before these are in --json." if len(days) > _DAYS else None
    heads: list[Child | Cell] = [_HEADS[0], *(Cell(head, "n") for head in _HEADS[1:])]
    return [table(heads, rows), el("p", left_out, class_="soft") if left_out else None]


def _ranges(found: Continuity) -> Children:
    accused = found.accused_ranges
    if not accused:
        return None
    rows: list[list[Child | Cell]] = [
        [
            f"{found.topic}-{each.partition}",
            Cell(words.offsets(each), "n"),
            Cell(f"{each.offsets:,}", "n"),
            str(each.presence),
            each.cause and str(each.cause),
        ]
        for each in accused[:_RANGES]
    ]
    heads: list[Child | Cell] = [
        "partition",
        Cell("offsets", "n"),
        Cell("how many", "n"),
        "in the table",
        "cause",
    ]
    more = len(accused) - _RANGES
    return [table(heads, rows), el("p", f"And {more:,} more ranges: see --json.") if more > 0 else None]


def _causes(found: Continuity) -> Children:
    rows: list[list[Child | Cell]] = [[Cell(f"{size:,}", "n"), cause] for size, cause in words.causes(found)]
    return table([Cell("offsets", "n"), "cause"], rows) if rows else None
