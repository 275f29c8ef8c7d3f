"""Recommended settings: which faults must be survived, what must not happen, and the cheapest such cell.

Cheapest first means: fewer copies; then less to wait for (acks 0, 1, all; a smaller min.insync.replicas);
then no flush of every write; then a plain producer before an idempotent one; then fewer retries; then a cell
that was less often without a leader. "Never failed" is said with the number of trials behind it.

The page's script does the choosing among the numbers that `data` puts into the page; `cheapest` is the same
in Python, for the answer that is there before a reader chooses, and for tests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tidelog.pipeline.report.html import Markup, el, input_, join
from tidelog.pipeline.sweep.atlas.table import AtlasTable, generation_words
from tidelog.pipeline.sweep.cells import KINDS, NAMED_MIXES, Cell
from tidelog.pipeline.sweep.intervals import percent
from tidelog.pipeline.sweep.summary import CellCount

HARMS = {
    "lost": "An acknowledged record is lost",
    "diverged": "Replicas disagree for ever",
    "rewritten": "A record changes after it was read",
    "duplicated": "A record is written twice",
    "reordered": "Records of one producer change places",
}
FORBIDDEN = ("lost", "diverged", "rewritten")
"""What is crossed out before a reader has chosen."""


def cost(cell: Cell, count: CellCount) -> tuple[float, ...]:
    """What is compared, from left to right: the smaller the cheaper."""
    return (
        cell.replicas,
        ("0", "1", "all").index(cell.acks),
        cell.min_insync,
        cell.flush == "always",
        cell.idempotent,
        cell.retries,
        cell.unclean,
        count.unavailable or 0.0,
    )


def cheapest(
    table: AtlasTable, generation: str, mixes: Sequence[str], forbidden: Sequence[str]
) -> tuple[Cell, int] | None:
    """The cheapest configuration that did none of it under any of these mixes, and in how many trials it was
    tried at least. A mix that was not tried under a configuration is no evidence for it. No mixes: None."""
    found: list[tuple[tuple[float, ...], Cell, int]] = []
    for cell in table.configurations:
        if cell.generation != generation:
            continue
        counts = [table.count(cell, mix) for mix in mixes]
        known = [count for count in counts if count is not None and count.exercised]
        if (
            not known
            or len(known) < len(counts)
            or any(count.bad.get(kind) for count in known for kind in forbidden)
        ):
            continue
        worst = max(known, key=lambda count: count.unavailable or 0.0)
        found.append((cost(cell, worst), cell, min(count.judged for count in known)))
    return min(found)[1:] if found else None


def section(table: AtlasTable) -> Markup:
    generations = list(dict.fromkeys(cell.generation for cell in table.configurations))
    usual = "epoch" if "epoch" in generations else generations[0]
    faults = [mix for mix in table.mixes if mix != "none"]
    form = el(
        "form",
        el("fieldset", el("legend", "Rules"), [_radio(name, usual) for name in generations]),
        el("fieldset", el("legend", "What it should survive"), [_mix(mix) for mix in faults]),
        el("fieldset", el("legend", "What must never happen"), [_harm(kind) for kind in HARMS]),
        id="choose",
    )
    return el(
        "section",
        el("h2", "Recommended settings"),
        form,
        el("div", _answer(table, usual, faults), id="answer", class_="cause", aria_live="polite"),
        el(
            "p",
            "Cheapest first: fewer copies, then less to wait for, then no flush of every write, then a plain "
            "producer. Never failed is not safe for ever: it is how often it was tried.",
            class_="soft",
        ),
        id="recommended-settings",
    )


def _radio(name: str, usual: str) -> Markup:
    checked = "checked" if name == usual else None
    return el(
        "label", input_(type="radio", name="generation", value=name, checked=checked), generation_words(name)
    )


def _mix(mix: str) -> Markup:
    kinds = NAMED_MIXES.get(mix, tuple(mix.split("+")))
    words = KINDS[mix] if mix in KINDS else " + ".join(kinds)
    box = input_(type="checkbox", name="mix", value=mix, checked="checked" if "power" not in kinds else None)
    return el("label", box, el("b", mix), el("small", words))


def _harm(kind: str) -> Markup:
    checked = "checked" if kind in FORBIDDEN else None
    return el("label", input_(type="checkbox", name="harm", value=kind, checked=checked), HARMS[kind])


def _answer(table: AtlasTable, generation: str, mixes: Sequence[str]) -> Markup:
    """For readers without scripts: what is crossed at first."""
    crossed = [mix for mix in mixes if "power" not in NAMED_MIXES.get(mix, tuple(mix.split("+")))]
    if not crossed:
        return el("p", "Cross at least one fault to survive and one thing that must not happen.")
    found = cheapest(table, generation, crossed, FORBIDDEN)
    if found is None:
        return el("p", "No configuration of this atlas kept to that.")
    cell, trials = found
    return join(
        el("p", ", ".join(table.settings(cell)), class_="best"),
        el(
            "p",
            f"Never failed in {trials:,} trials of each mix: below {percent(3 / trials)}, at 95 %.",
        ),
    )


def data(table: AtlasTable) -> Markup:
    """The numbers that the script chooses among. `<` is escaped, so no text can end the element."""
    cells = {}
    for count in table.atlas.counts:
        shown = table.shown(count)
        cells[count.cell.name] = {
            "n": count.judged,
            "known": count.exercised,
            "bad": count.bad,
            "unavailable": count.unavailable,
            "unanswered": count.unanswered,
            "faults": count.faults,
            "untried": count.never_tried(),
            "seen": count.seen,
            "examples": count.examples,
            "story": None
            if shown is None
            else {"file": shown.file, "kind": shown.kind, "steps": shown.steps},
        }
    rows = []
    for cell in table.configurations:
        by_mix: dict[str, Any] = {}
        for mix in table.mixes:
            played = table.count(cell, mix)
            by_mix[mix] = None if played is None else played.cell.name
        numbers = cost(cell, CellCount(cell, 0))[:-1]
        rows.append(
            {
                "generation": cell.generation,
                "words": table.settings(cell),
                "cost": [float(n) for n in numbers],
                "by": by_mix,
            }
        )
    content = json.dumps({"cells": cells, "rows": rows, "harms": HARMS}, separators=(",", ":"))
    return Markup(content.replace("<", "\\u003c"))
