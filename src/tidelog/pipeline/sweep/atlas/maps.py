"""Heat maps: configurations down, mixes of faults across, one number in each field.

Rules of the file: the number is written, colour only helps to find it; "never" says in how many trials, and a
field in which none of the faults came about is a question mark, not a colour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.pipeline.report.html import Markup, el, join, key
from tidelog.pipeline.sweep.atlas.table import AtlasTable, generation_words
from tidelog.pipeline.sweep.cells import Cell
from tidelog.pipeline.sweep.intervals import percent
from tidelog.pipeline.sweep.summary import CellCount

_WORDS = (
    "clean: only an in-sync replica is elected. flushed: every write is on disk before it is acknowledged. "
    "min.insync: how many replicas must be in sync for a write with acks=all. plain, "
    "idempotent: the producer."
)
_RARE = (0.001, 0.01, 0.1)
"""Where the colour of a share of failures changes."""
_USUAL = (0.05, 0.15, 0.3, 0.5)
"""… and of a share of time or of sends."""


@dataclass(slots=True, frozen=True)
class Measure:
    """Something a map can show. ``share`` is None where nothing was measured."""

    key: str
    title: str
    meaning: str
    share: Callable[[CellCount], float | None]
    failure: bool
    """Whether it is a failure that should never happen, or a price that is paid."""


def _failure(kind: str, words: str) -> Measure:
    return Measure(kind, kind.capitalize(), f"trials {words}", lambda count: count.share(kind).value, True)


MEASURES = (
    _failure("lost", "in which an acknowledged record was lost"),
    _failure("diverged", "after which replicas disagree for ever"),
    _failure("rewritten", "in which a record changed after it was read"),
    _failure("duplicated", "in which a record was written twice"),
    _failure("reordered", "in which records of one producer changed places"),
    Measure(
        *("unavailable", "No leader", "of the time no broker could have taken a write"),
        lambda count: count.unavailable,
        False,
    ),
    Measure(
        *("unanswered", "Not acknowledged", "of the sends failed, or were never answered"),
        lambda count: count.unanswered,
        False,
    ),
)


def section(table: AtlasTable) -> Markup:
    tabs = [
        el(
            "button",
            measure.title,
            type="button",
            data_measure=measure.key,
            aria_pressed="true" if measure.key == "lost" else "false",
        )
        for measure in MEASURES
    ]
    meanings = [
        el(
            "p",
            f"In each field: the share of {measure.meaning}."
            if measure.failure
            else f"In each field: the share {measure.meaning}.",
            class_=f"meaning m-{measure.key}",
        )
        for measure in MEASURES
    ]
    least = min((count.judged for count in table.atlas.counts if count.exercised), default=0)
    return el(
        "section",
        el("h2", "The maps"),
        el("p", f"“Never” is what {least:,} trials can say: below {percent(min(1.0, 3 / least))}.")
        if least
        else None,
        el("div", tabs, class_="tabs", role="group", aria_label="What the map shows"),
        meanings,
        _legend(),
        el("p", _WORDS, class_="soft"),
        el(
            "div",
            [_map(table, name) for name in _generations(table)],
            class_="maps",
            id="maps",
            data_shows="lost",
        ),
        el(
            "div",
            el("p", "Choose a field to see its evidence.", class_="soft"),
            id="evidence",
            class_="evidence",
        ),
        id="map",
    )


def _generations(table: AtlasTable) -> list[str]:
    return list(dict.fromkeys(cell.generation for cell in table.configurations))


def _legend() -> Markup:
    steps = (
        ("h0", "never"),
        ("h1", "below 0.1 %"),
        ("h2", "below 1 %"),
        ("h3", "below 10 %"),
        ("h4", "more"),
    )
    keys = [key(style, words) for style, words in steps]
    prices = (("p0", "below 5 %"), ("p1", "15 %"), ("p2", "30 %"), ("p3", "50 %"), ("p4", "more"))
    more = [key(style, words) for style, words in prices]
    unknown = key("hu", "unknown: its faults never came about")
    return join(
        el("p", el("span", keys, unknown, class_="legend"), class_="keys failures"),
        el("p", el("span", more, unknown, class_="legend"), class_="keys prices"),
    )


def _map(table: AtlasTable, generation: str) -> Markup:
    head = el(
        "tr",
        el("th", generation_words(generation), scope="col"),
        [el("th", mix, scope="col") for mix in table.mixes],
    )
    rows: list[Markup] = []
    before = None
    for cell in table.configurations:
        if cell.generation == generation:
            rows.append(_row(table, cell, apart=before not in (None, cell.acks)))
            before = cell.acks
    return el("div", el("table", el("thead", head), el("tbody", rows), class_="heat"), class_="wide map")


def _row(table: AtlasTable, cell: Cell, *, apart: bool) -> Markup:
    """``apart``: something else begins here, so leave a little room."""
    fields = [_field(table, table.count(cell, mix)) for mix in table.mixes]
    words = el("th", " · ".join(table.settings(cell)), scope="row")
    return el("tr", words, fields, class_="apart" if apart else None)


def _field(table: AtlasTable, count: CellCount | None) -> Markup:
    if count is None:
        return el("td", "–", class_="none", title="this combination cannot be, or was not played")
    numbers = []
    for measure in MEASURES:
        style, words = look(count, measure)
        numbers.append(el("span", words, class_=f"m-{measure.key} {style}"))
    label = f"{count.cell.name}: lost {count.share('lost').words()}"
    return el("td", el("button", numbers, type="button", data_cell=count.cell.name, title=label))


def look(count: CellCount, measure: Measure) -> tuple[str, str]:
    """The class of a field, and what is written in it."""
    share = measure.share(count)
    if share is None or not count.exercised:
        return "hu", "?"
    if not measure.failure:
        return f"p{sum(share >= step for step in _USUAL)}", percent(share)
    if share == 0:
        return "h0", "never"
    return f"h{1 + sum(share >= step for step in _RARE)}", percent(share)
