"""The atlas as a page: what it says without a script; and the script chooses as `choosing.cheapest` does."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tidelog.pipeline.sweep.atlas import render
from tidelog.pipeline.sweep.atlas.choosing import HARMS, cheapest
from tidelog.pipeline.sweep.atlas.table import AtlasTable
from tidelog.pipeline.sweep.campaign import Atlas
from tidelog.pipeline.sweep.grid import make_grid
from tidelog.pipeline.sweep.schedules import Shown
from tidelog.pipeline.sweep.summary import CellCount
from tidelog.scenario.links import LAB, fragment

MIXES = ["crash", "power", "all"]


def made_up() -> Atlas:
    """Invented counts, different in every cell, with cells that were never tried among them."""
    grid = make_grid(
        {
            "generation": ["hw", "epoch"],
            "acks": ["1", "all"],
            "min_insync": [1, 2],
            "flush": ["roll", "always"],
            "faults": MIXES,
        }
    )
    counts = []
    for number, cell in enumerate(grid.cells):
        bad = {"lost": number % 3, "duplicated": number % 4, "diverged": int(number % 5 == 0)}
        tried = {} if number % 11 == 5 else dict.fromkeys(cell.kinds, 90)
        count = CellCount(cell, 100, {"held": 100}, {kind: n for kind, n in bad.items() if n}, faults=tried)
        count.measures = {
            "sent": 1_000,
            "acknowledged": 900,
            "elapsed_ms": 5_000,
            "unavailable_ms": 10 * number,
        }
        count.examples = dict.fromkeys(count.bad, 7)
        count.seen = {"clean_election": 40}
        counts.append(count)
    worst = counts[1].cell.name
    shown = [Shown(worst, "lost", 7, 3, "lost a & <b>", "# lost\n\nscenario x\n\nsend p <script>\n")]
    return Atlas(grid, 100, counts, shown, "tidelog sweep", "2026-01-01", rules="0123")


class Balanced(HTMLParser):
    """Counts what is opened and closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_one_sound_file() -> None:
    """Well-formed, no address of anything elsewhere, texts escaped, the same bytes every time."""
    page = render(made_up())
    reader = Balanced()
    reader.feed(page)
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    elsewhere = re.findall(r'(?:src|href)="(?!schedules/)([^"]*)', page)
    assert [address for address in elsewhere if not address.startswith(LAB)] == []
    assert "send p &lt;script&gt;" in page
    assert page == render(made_up())


def test_a_story_opens_in_the_lab() -> None:
    """The link holds the whole story, so the lab needs no file."""
    (link,) = re.findall(r'<a href="([^"]*)">Watch it in the lab</a>', render(made_up()))
    (shown,) = made_up().shown
    assert link == LAB + fragment(shown.text, "hw")


def test_the_page_says_what_was_not_tried() -> None:
    """Question marks on the map, a list of the cells, and pairs that never came about."""
    atlas = made_up()
    unknown = [count for count in atlas.counts if not count.exercised]
    page = render(atlas)
    assert unknown
    assert f"{len(unknown)} of {len(atlas.counts)} cells are unknown" in page
    assert all(f"<code>{count.cell.name}</code>" in page for count in unknown)
    assert "never</td>" in page


@pytest.mark.slow
def test_the_script_chooses_as_python_does(browser: Any, tmp_path: Path) -> None:
    """For every choice of faults and of what must not happen: the same configuration, or none."""
    atlas = made_up()
    (tmp_path / "atlas.html").write_text(render(atlas), "utf-8")
    table = AtlasTable(atlas)
    page = browser.new_page(viewport={"width": 390, "height": 844})
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text))
    page.goto(f"file://{tmp_path}/atlas.html")
    answers = 0
    for mixes in (*combinations(MIXES, 1), *combinations(MIXES, 2)):
        for forbidden in (("lost",), ("lost", "diverged"), ("duplicated",)):
            for name, wanted in (("mix", mixes), ("harm", forbidden)):
                for value in MIXES if name == "mix" else HARMS:
                    page.set_checked(f"[name={name}][value={value}]", value in wanted)
            found = cheapest(table, "epoch", mixes, forbidden)
            expected = "No configuration" if found is None else ", ".join(table.settings(found[0]))
            assert page.inner_text("#answer .best").startswith(expected)
            answers += found is not None
    assert answers > 3
    page.click("[data-measure=unavailable]")
    page.click("td button:visible >> nth=3")
    assert "of the time" in page.inner_text("#evidence")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert troubles == []
    page.close()


def test_a_loss_that_the_rules_exclude_is_called_unexpected() -> None:
    """On the page and in the summary; a loss elsewhere is not."""
    from tidelog.cli.show.sweep import summary
    from tidelog.pipeline.sweep.summary import excludes_loss

    atlas = made_up()
    sound = [count for count in atlas.counts if excludes_loss(count.cell)]
    assert {count.cell.generation for count in sound} == {"epoch"}
    assert atlas.as_json()["unexpected"] == [
        count.cell.name for count in sound if {"lost", "diverged"} & set(count.bad)
    ]
    assert "UNEXPECTED" in summary(atlas, Path("atlas.html"))
    assert "Unexpected: in" in render(atlas)
    for count in sound:
        count.bad = {"duplicated": 1}
    assert atlas.as_json()["unexpected"] == []
    assert "No loss in the " in summary(atlas, Path("atlas.html"))
    assert "and it never happened there" in render(atlas)
