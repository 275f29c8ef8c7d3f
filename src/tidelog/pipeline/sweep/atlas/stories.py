"""The smallest failing schedules, each shown once."""

from __future__ import annotations

from tidelog.narrate.phrasebook import ENGLISH, Phrase
from tidelog.pipeline.report.html import Markup, el, join
from tidelog.pipeline.sweep.atlas.table import AtlasTable
from tidelog.pipeline.sweep.cells import cell_named
from tidelog.pipeline.sweep.schedules import Shown
from tidelog.scenario.links import LINKED_MAX, lab_link

_TOLD_MAX = 40
"""Different stories on the page; the others are files beside it."""
_NAMES_MAX = 12
_ORDER = ("lost", "rewritten", "diverged", "phantom", "duplicated", "reordered")


def section(table: AtlasTable) -> Markup | None:
    stories = grouped(table.atlas.shown)
    if not stories:
        return None
    told = stories[:_TOLD_MAX]
    left = len(stories) - len(told)
    return el(
        "section",
        el("h2", "How it happens"),
        el(
            "p",
            f"Of each of the {len(table.atlas.shown)} cells in which something went wrong, one trial was "
            f"made as small as it gets. That left {len(stories)} different stories. Each is a file to be "
            "replayed, stepped through and changed.",
        ),
        [_story(story) for story in told],
        el("p", f"{left} more are among the files in schedules/.", class_="soft") if left else None,
        id="stories",
    )


def grouped(shown: list[Shown]) -> list[list[Shown]]:
    """Failures of the same kind with the same steps; the gravest and then the most common first."""
    groups: dict[tuple[str, str], list[Shown]] = {}
    for one in shown:
        groups.setdefault((one.kind, steps_of(one)), []).append(one)
    return sorted(
        groups.values(), key=lambda group: (_ORDER.index(group[0].kind), -len(group), group[0].steps)
    )


def steps_of(one: Shown) -> str:
    """The scenario without its comments and its head: what happens, whatever the settings are."""
    head = ("scenario ", "title ", "cluster ", "topic ", "producer ", "consumer ", "#")
    lines = [line for line in one.text.splitlines() if not line.startswith(head)]
    return "\n".join(lines).strip()


def _story(group: list[Shown]) -> Markup:
    first = group[0]
    generations = dict.fromkeys(cell_named(one.cell).generation for one in group)
    mixes = dict.fromkeys(cell_named(one.cell).faults for one in group)
    where = f"{', '.join(generations)} under {', '.join(mixes)}"
    names = [el("li", el("a", one.cell, href=one.file)) for one in group[:_NAMES_MAX]]
    more = len(group) - len(names)
    return el(
        "details",
        el(
            "summary",
            el("b", first.message),
            f" in {len(group)} {'cell' if len(group) == 1 else 'cells'}: {where} ({first.steps} steps)",
        ),
        el("pre", first.text),
        el("ul", names, el("li", f"and {more} more") if more else None) if len(group) > 1 else None,
        join(el("pre", f"tidelog replay {first.file}\ntidelog lab {first.file}")),
        _lab_link(first),
        class_="story",
    )


def _lab_link(one: Shown) -> Markup | None:
    """Into the lab of the reader's machine; the story itself is in the link."""
    if len(one.text) > LINKED_MAX:
        return None
    say = ENGLISH.say
    link = el("a", say(Phrase("report.again_lab")), href=lab_link(one.text, cell_named(one.cell).generation))
    return el("p", link, " ", el("span", say(Phrase("report.again_lab_more")), class_="soft"))
