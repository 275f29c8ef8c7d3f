"""A small sweep on Spark, from its grid to its atlas: what is counted, what is kept, how it goes on."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

from tidelog.lab.play import run
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.sweep.atlas import render
from tidelog.pipeline.sweep.campaign import Atlas, Campaign, CampaignListener
from tidelog.pipeline.sweep.grid import make_grid
from tidelog.pipeline.sweep.player import Block, rows_of
from tidelog.pipeline.sweep.rows import COLUMNS
from tidelog.pipeline.sweep.spark_jobs import play_on_spark, tasks_of
from tidelog.pipeline.sweep.store import Store, missing
from tidelog.pipeline.sweep.summary import count_from_json
from tidelog.scenario.scenario import parse

pytestmark = pytest.mark.slow

AXES = {"generation": ["hw", "epoch"], "acks": ["1", "all"], "faults": ["crash", "none"]}
SEEDS = 14


class Heard(CampaignListener):
    def __init__(self) -> None:
        self.phases: list[str] = []

    def phase(self, words: str, trials: int | None = None) -> None:
        self.phases.append(words)


def swept(spark: SparkSession, folder: Path, seeds: int) -> tuple[Campaign, Atlas]:
    heard = Heard()
    campaign = Campaign(make_grid(AXES), seeds, Store(folder), heard)
    campaign.prepare(spark)
    campaign.play(spark)
    atlas = campaign.conclude(spark, command="tidelog sweep", draw=render)
    return campaign, atlas


@pytest.fixture(scope="module")
def done(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Atlas]:
    folder = tmp_path_factory.mktemp("sweep") / "atlas"
    return folder, swept(spark, folder, SEEDS)[1]


def stored(folder: Path) -> list[dict]:
    rows: list[dict] = pq.read_table(folder / "trials").to_pylist()
    return sorted(rows, key=lambda row: (row["cell"], row["seed"]))


def test_spark_plays_what_one_process_plays(done: tuple[Path, Atlas]) -> None:
    """The rows in Parquet are, one for one, those that the trials give when they are played here."""
    folder, atlas = done
    expected = [
        dict(zip(COLUMNS, row, strict=True))
        for cell in sorted(count.cell.name for count in atlas.counts)
        for row in rows_of(Block(cell, 0, SEEDS))
    ]
    assert stored(folder) == expected


def test_counts_are_those_of_the_rows(done: tuple[Path, Atlas]) -> None:
    """What Spark counts for a cell is what a loop over its rows counts; and it survives being written."""
    folder, atlas = done
    rows = stored(folder)
    for count in atlas.counts:
        own = [row for row in rows if row["cell"] == count.cell.name]
        assert count.trials == len(own) == SEEDS
        for kind in ("lost", "duplicated", "diverged", "reordered"):
            assert count.bad.get(kind, 0) == sum(row[kind] > 0 for row in own)
            assert count.records.get(kind, 0) == sum(row[kind] for row in own)
        assert count.measures["sent"] == sum(row["sent"] for row in own)
        assert count.faults.get("crash", 0) == sum(row["fault_crash"] > 0 for row in own)
        assert count.seen.get("retried", 0) == sum(row["seen_retried"] > 0 for row in own)
        for kind, seed in count.examples.items():
            row = next(row for row in own if row["seed"] == seed)
            assert row["outcome"] == kind if kind == "unrecovered" else row[kind] > 0
    written = json.loads((folder / "cells.json").read_text())
    assert [count_from_json(one) for one in written["cells"]] == atlas.counts


def test_every_bad_cell_has_a_schedule_that_shows_it(done: tuple[Path, Atlas]) -> None:
    """The file is a scenario, and played again it ends in what it was kept for."""
    folder, atlas = done
    bad = [count for count in atlas.counts if count.worst() is not None]
    assert bad
    assert {one.cell for one in atlas.shown} == {count.cell.name for count in bad}
    for one in atlas.shown:
        played = run(parse((folder / one.file).read_text()))
        assert played.verdict.as_json()[one.kind]
        assert played.scenario.setup.generation == one.cell.split(".")[0]
        assert len(played.scenario.steps) < 60


def test_what_is_there_is_not_played_again(spark: SparkSession, done: tuple[Path, Atlas]) -> None:
    """The same command finds nothing to do; with more seeds it plays only the new ones."""
    folder, _ = done
    files = set((folder / "trials").glob("*.parquet"))
    campaign = Campaign(make_grid(AXES), SEEDS, Store(folder))
    estimate = campaign.prepare(spark)
    assert (estimate.trials, estimate.present) == (0, 8 * SEEDS)
    campaign.play(spark)
    assert set((folder / "trials").glob("*.parquet")) == files
    assert Campaign(make_grid(AXES), SEEDS + 3, Store(folder)).prepare(spark).trials == 8 * 3


def test_a_sweep_with_holes_is_filled(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever files an interrupted sweep left, the rest is played, and no trial twice."""
    grid, store = make_grid({"generation": ["epoch"], "acks": ["1", "all"]}), Store(tmp_path / "atlas")
    store.open(grid, 9)
    names = [cell.name for cell in grid.cells]
    tasks = tasks_of(missing(names, 9, {}), 4)
    play_on_spark(spark, store, [tasks[1], tasks[3]])
    left = missing(names, 9, store.runs(spark))
    assert [(block.first, block.end) for block in left] == [(0, 4), (8, 9), (0, 3), (7, 9)]
    play_on_spark(spark, store, tasks_of(left, 5))
    assert missing(names, 9, store.runs(spark)) == []
    assert [row["seed"] for row in stored(store.folder)] == [*range(9), *range(9)]


def test_trials_of_other_rules_do_not_mix(done: tuple[Path, Atlas]) -> None:
    """A folder that was swept by other sources is refused in one line."""
    folder, _ = done
    manifest = json.loads((folder / "sweep.json").read_text())
    Store(folder).write("sweep.json", json.dumps({**manifest, "rules": "others"}))
    try:
        with pytest.raises(PipelineError, match="swept by other rules than these: name another --out"):
            Store(folder).open(make_grid(AXES), SEEDS)
    finally:
        Store(folder).write("sweep.json", json.dumps(manifest))


def test_a_new_fault_makes_other_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a folder that was swept before the fault existed is refused, not mixed with what is played now."""
    source = tmp_path / "tidelog"
    shutil.copytree(
        Path(str(files("tidelog"))), source, ignore=shutil.ignore_patterns("__pycache__", "static")
    )
    monkeypatch.setattr("tidelog.pipeline.sweep.store.files", lambda package: source)
    folder = Store(tmp_path / "atlas")
    folder.open(make_grid(AXES), SEEDS)
    folder.open(make_grid(AXES), SEEDS)
    (source / "faults" / "meteor.py").write_text('"""A new fault."""\n')
    with pytest.raises(PipelineError, match="was swept by other rules than these"):
        folder.open(make_grid(AXES), SEEDS)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """Neither filled nor emptied."""
    (tmp_path / "thesis.txt").write_text("years of work")
    for fresh in (False, True):
        with pytest.raises(PipelineError, match="holds something else than a sweep: name another --out"):
            Store(tmp_path).open(make_grid(AXES), SEEDS, fresh=fresh)


def test_a_folder_that_spark_cannot_read_is_refused(tmp_path: Path) -> None:
    """Before anything is played: Hadoop takes such names for patterns."""
    with pytest.raises(PipelineError, match=r"Spark reads no path with \[ \]: name another --out"):
        Store(tmp_path / "atlas[1]").open(make_grid(AXES), SEEDS)


def test_a_cell_whose_faults_never_came_about_is_unknown(done: tuple[Path, Atlas]) -> None:
    """It is a question mark on the map, and no configuration is chosen because of it."""
    from dataclasses import replace

    from tidelog.pipeline.sweep.atlas.choosing import cheapest
    from tidelog.pipeline.sweep.atlas.table import AtlasTable

    _, atlas = done
    blank = [replace(c, faults={}) if c.cell.faults == "crash" else c for c in atlas.counts]
    assert not any(count.exercised for count in blank if count.cell.faults == "crash")
    assert cheapest(AtlasTable(replace(atlas, counts=blank)), "epoch", ["crash"], ["phantom"]) is None
    assert cheapest(AtlasTable(atlas), "epoch", ["crash"], ["phantom"]) is not None
    assert cheapest(AtlasTable(atlas), "epoch", [], ["phantom"]) is None
    page = render(replace(atlas, counts=blank))
    assert "4 of 8 cells are unknown" in page
    assert page.count('m-lost hu"') == 4


def test_tasks_are_of_one_size() -> None:
    """Large blocks are cut and small ones put together; nothing is lost or played twice."""
    blocks = [Block("a", 0, 10), Block("b", 5, 7), Block("c", 0, 1), Block("d", 0, 4)]
    tasks = tasks_of(blocks, 4)
    assert [sum(block.size for block in task) for task in tasks] == [4, 4, 4, 4, 1]
    seeds = [(block.cell, seed) for task in tasks for block in task for seed in range(block.first, block.end)]
    assert seeds == [(block.cell, seed) for block in blocks for seed in range(block.first, block.end)]
