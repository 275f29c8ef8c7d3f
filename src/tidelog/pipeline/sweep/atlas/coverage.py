"""What the sweep reached, and what it did not: faults, pairs of faults, and transitions of the rules.

A zero here is a limit of the atlas. It is printed as such.
"""

from __future__ import annotations

from tidelog.lab.search.count import MARKS
from tidelog.lab.search.schedule import ALL_FAULT_KINDS
from tidelog.narrate.phrasebook import ENGLISH
from tidelog.pipeline.report.html import Markup, el
from tidelog.pipeline.sweep.atlas.table import AtlasTable
from tidelog.pipeline.sweep.cells import KINDS
from tidelog.pipeline.sweep.intervals import percent
from tidelog.pipeline.sweep.summary import CellCount

_ELR = ("eligible_election", "last_known_election")
CANNOT_BE = {
    "hw": (*_ELR, "majority_election", "follower_fenced", "truncated_by_epoch", "truncated_again"),
    "kip101": (*_ELR, "majority_election", "follower_fenced", "truncated_again"),
    "epoch": (*_ELR, "majority_election", "truncated_to_watermark"),
    "elr": ("majority_election", "truncated_to_watermark"),
    "majority": (
        *_ELR,
        "truncated_to_watermark",
        *("clean_election", "unclean_election", "preferred_election"),
        *("isr_shrunk", "isr_grown", "isr_refused", "refused_too_few"),
    ),
}
"""Transitions that rules do not have: not reaching them is no gap."""


def section(table: AtlasTable) -> Markup:
    counts = table.atlas.counts
    unknown = [count for count in counts if not count.exercised]
    return el(
        "section",
        el("h2", "What was reached"),
        el("p", _sentence(counts, unknown)),
        el("h3", "Transitions of the rules"),
        _transitions(table),
        el("h3", "Faults, and pairs of them"),
        _pairs(counts),
        _unknown(unknown),
        id="coverage",
    )


def _sentence(counts: list[CellCount], unknown: list[CellCount]) -> str:
    reached = [mark for mark in MARKS if any(count.seen.get(mark) for count in counts)]
    words = f"{len(reached)} of {len(MARKS)} transitions were passed through in some trial. "
    if not unknown:
        return words + "In every cell, faults of its mix came about."
    return words + f"{len(unknown)} of {len(counts)} cells are unknown: none of their faults came about."


def _transitions(table: AtlasTable) -> Markup:
    generations = list(dict.fromkeys(count.cell.generation for count in table.atlas.counts))
    head = el("tr", el("th", "in how many trials"), [el("th", name, class_="n") for name in generations])
    rows = []
    for mark in MARKS:
        fields = []
        for generation in generations:
            if mark in CANNOT_BE.get(generation, ()):
                fields.append(el("td", "–", class_="n soft"))
                continue
            own = [count for count in table.atlas.counts if count.cell.generation == generation]
            fields.append(_number(sum(c.seen.get(mark, 0) for c in own), sum(c.judged for c in own)))
        rows.append(el("tr", el("td", ENGLISH.words["marks"][mark]), fields))
    return el("div", el("table", el("thead", head), el("tbody", rows)), class_="wide")


def _number(count: int, trials: int) -> Markup:
    if not count:
        return el("td", "never", class_="n never")
    return el("td", f"{count:,}", el("small", f" {percent(count / trials)}", class_="soft"), class_="n")


def _pairs(counts: list[CellCount]) -> Markup:
    wanted = [kind for kind in KINDS if any(kind in count.cell.kinds for count in counts)]
    order = list(ALL_FAULT_KINDS)

    def together(one: str, other: str) -> int:
        if one == other:
            return sum(count.faults.get(one, 0) for count in counts)
        first, second = sorted((one, other), key=order.index)
        return sum(count.pairs.get(f"{first}+{second}", 0) for count in counts)

    head = el("tr", el("th", "trials with both"), [el("th", kind, class_="n") for kind in wanted])
    rows = [
        el(
            "tr",
            el("td", kind),
            [
                el(
                    "td",
                    f"{number:,}" if (number := together(kind, other)) else "never",
                    class_="n" if number else "n never",
                )
                for other in wanted
            ],
        )
        for kind in wanted
    ]
    return el("div", el("table", el("thead", head), el("tbody", rows)), class_="wide")


def _unknown(unknown: list[CellCount]) -> Markup | None:
    if not unknown:
        return None
    names = [el("li", el("code", count.cell.name)) for count in unknown]
    return el("details", el("summary", f"The {len(unknown)} unknown cells"), el("ul", names))
