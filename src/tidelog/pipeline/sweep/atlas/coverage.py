"""What the sweep reached, and what it did not: faults, pairs of faults, and transitions of the rules.

A zero here is a limit of the atlas. It is printed as such.
"""

from __future__ import annotations

from tidelog.lab.search.count import MARKS
from tidelog.lab.search.schedule import ALL_FAULT_KINDS
from tidelog.narrate.phrasebook import ENGLISH
from tidelog.pipeline.report.html import Cell, Markup, el
from tidelog.pipeline.report.html import table as html_table
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
    heads: list[str | Cell] = ["in how many trials", *(Cell(name, "n") for name in generations)]
    rows = []
    for mark in MARKS:
        cells = [Cell(ENGLISH.words["marks"][mark])]
        for generation in generations:
            if mark in CANNOT_BE.get(generation, ()):
                cells.append(Cell("–", "n soft"))
                continue
            own = [count for count in table.atlas.counts if count.cell.generation == generation]
            trials = sum(count.judged for count in own)
            cells.append(_number(sum(count.seen.get(mark, 0) for count in own), trials))
        rows.append(cells)
    return html_table(heads, rows)


def _number(count: int, trials: int = 0) -> Cell:
    """How many, and of ``trials`` which share."""
    if not count:
        return Cell("never", "n never")
    share = el("small", f" {percent(count / trials)}", class_="soft") if trials else None
    return Cell((f"{count:,}", share), "n")


def _pairs(counts: list[CellCount]) -> Markup:
    wanted = [kind for kind in KINDS if any(kind in count.cell.kinds for count in counts)]
    order = list(ALL_FAULT_KINDS)

    def together(one: str, other: str) -> int:
        if one == other:
            return sum(count.faults.get(one, 0) for count in counts)
        first, second = sorted((one, other), key=order.index)
        return sum(count.pairs.get(f"{first}+{second}", 0) for count in counts)

    heads: list[str | Cell] = ["trials with both", *(Cell(kind, "n") for kind in wanted)]
    return html_table(heads, [[kind, *(_number(together(kind, o)) for o in wanted)] for kind in wanted])


def _unknown(unknown: list[CellCount]) -> Markup | None:
    if not unknown:
        return None
    names = [el("li", el("code", count.cell.name)) for count in unknown]
    return el("details", el("summary", f"The {len(unknown)} unknown cells"), el("ul", names))
