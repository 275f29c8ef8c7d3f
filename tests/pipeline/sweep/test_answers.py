"""The guide's answers are what its counts say, and counts of another sweep are answered by what they say."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.cli.test_guides import pattern, shown_of

from tidelog.cli.show.sweep import plan, summary
from tidelog.pipeline.sweep.campaign import Atlas, Campaign, Estimate
from tidelog.pipeline.sweep.cells import Cell
from tidelog.pipeline.sweep.questions import answers
from tidelog.pipeline.sweep.requests import grid_from
from tidelog.pipeline.sweep.store import Store
from tidelog.pipeline.sweep.summary import CellCount, count_from_json

GUIDE = Path(__file__).parents[3] / "docs" / "guide"


def test_the_guide_says_what_its_counts_say() -> None:
    """The tables in `questions.md` are those that `make_answers.py` makes of `atlas.json`, which is small."""
    made = subprocess.run(
        [sys.executable, GUIDE / "make_answers.py"], capture_output=True, text=True, check=True
    ).stdout
    assert made.count("**") == 2 * 7
    assert made.strip() in (GUIDE / "questions.md").read_text("utf-8")
    assert (GUIDE / "atlas.json").stat().st_size <= 200_000


def test_the_guide_shows_the_end_of_its_sweep() -> None:
    """What `atlas.md` shows of it is what the command prints of the counts in `atlas.json`, which do not have
    the seed of an unrecovered trial."""
    found = json.loads((GUIDE / "atlas.json").read_text("utf-8"))
    grid, seeds = grid_from(GUIDE / "atlas.toml", {})
    counts = [count_from_json(cell) for cell in found["cells"]]
    for each in counts:
        each.examples["unrecovered"] = 8
    printed = summary(Atlas(grid, seeds, counts, []), Path("atlas/atlas.html"))
    shown = shown_of("docs/guide/atlas.md", "tidelog sweep docs/guide/atlas.toml")
    shown = [line.replace("…/atlas/", "atlas/") for line in shown]
    assert re.fullmatch(pattern(shown), printed), printed


def test_the_guide_shows_the_size_of_the_usual_grid(tmp_path: Path) -> None:
    grid, seeds = grid_from(None, {})
    trials = len(grid.cells) * seeds
    campaign = Campaign(grid, seeds, Store(tmp_path / "atlas"))
    printed = plan(campaign, Estimate(trials=trials, present=0, cores=2, trial_s=0.004))
    shown = shown_of("docs/guide/atlas.md", "tidelog sweep")
    assert re.fullmatch(pattern(shown), f"\n{printed}\nplaying {trials:,} trials\n")


def count(cell: Cell, **bad: int) -> CellCount:
    faults = dict.fromkeys(cell.kinds, 80)
    measures = {"sent": 1_000, "acknowledged": 900, "elapsed_ms": 1_000, "unavailable_ms": 100}
    return CellCount(cell, 100, {"held": 100}, dict(bad), faults=faults, measures=measures)


def test_a_sentence_says_what_was_seen() -> None:
    """Cells that lost are named, and cells that did not; cells that were never tried say nothing."""
    counts = [count(Cell(generation="hw"), lost=3), count(Cell()), count(Cell(generation="majority"))]
    unknown = CellCount(Cell(generation="kip101"), 100, bad={"lost": 9})
    first = answers([*counts, unknown])[0]
    assert "hw lost acknowledged records; epoch and majority never did." in first.sentence
    assert [row[0] for row in first.rows] == ["hw", "epoch", "majority"]
    assert first.rows[1][2] == "never in 100: < 3.0 %"


def test_a_sweep_that_cannot_tell_is_not_asked() -> None:
    """One kind of rules is no comparison."""
    assert answers([count(Cell())]) == []


def test_a_sweep_that_played_nothing_of_a_question_leaves_it_out() -> None:
    """As one of power losses alone does with the questions about intact disks."""
    assert answers([]) == []
