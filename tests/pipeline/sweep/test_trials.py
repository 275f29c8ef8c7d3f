"""One trial as a row: deterministic, honest about what failed, and a row whatever becomes of it."""

import os
import signal
import time
from collections.abc import Iterator
from random import Random

import pytest

from tidelog.lab.play import run
from tidelog.lab.search import count
from tidelog.lab.search.count import MARKS, play, schedule
from tidelog.lab.search.schedule import ALL_FAULT_KINDS, Schedule, decide_randomly
from tidelog.lab.world.world import Stuck, World
from tidelog.pipeline.sweep import player, store
from tidelog.pipeline.sweep.cells import OPERATIONS, Cell, faults_of
from tidelog.pipeline.sweep.player import Block, play_guarded, rows_of
from tidelog.pipeline.sweep.rows import COLUMNS, Row, as_arrow, row_of
from tidelog.scenario.scenario import VERDICT_KINDS, parse, print_scenario

CELL = Cell(acks="1", faults="all")


def as_dicts(rows: Iterator[Row]) -> list[dict]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def test_a_seed_plays_the_same_every_time() -> None:
    """In this process or in a child, alone or among others: the same row."""
    block = Block(CELL.name, 0, 12)
    rows = list(rows_of(block))
    assert list(play_guarded([block])) == rows
    assert list(rows_of(Block(CELL.name, 7, 8))) == [rows[7]]
    assert len({row[2:] for row in rows}) > 6


def test_the_row_agrees_with_the_replayed_schedule() -> None:
    """What a row counts is what the lab finds when the trial is written down as a scenario and replayed."""
    faults = faults_of(CELL.faults)
    failed = 0
    for seed in range(12):
        tally = play(CELL.scenario(), seed, operations=OPERATIONS, faults=faults)
        written = schedule(CELL.scenario(), seed, operations=OPERATIONS, faults=faults)
        verdict = run(parse(print_scenario(written))).verdict.as_json()
        assert {kind: len(found) for kind, found in verdict.items()} == tally.verdict
        failed += tally.outcome == "violated"
    assert failed > 0


def test_faults_of_zones_and_of_the_keeper_come_about_and_are_mended() -> None:
    """Every kind of a mix comes about in some of a few trials, and the cluster recovers from it."""
    cell = Cell(faults="+".join(sorted(("zone", "blackout", "keeper"))), zones=2)
    rows = as_dicts(rows_of(Block(cell.name, 0, 25)))
    for kind in cell.kinds:
        assert any(row[f"fault_{kind}"] for row in rows), kind
    assert not any(row[f"fault_{kind}"] for row in rows for kind in ("crash", "pause", "reset", "elect"))
    assert {row["outcome"] for row in rows} <= {"held", "violated"}


def test_the_columns_are_what_they_say() -> None:
    """Counts add up, and the Arrow batch holds the same values."""
    rows = list(rows_of(Block(CELL.name, 0, 6)))
    for row in as_dicts(iter(rows)):
        assert row["sent"] == row["acknowledged"] + row["failed"] + row["unknown"]
        assert (row["outcome"] == "violated") == any(row[kind] for kind in VERDICT_KINDS)
        assert 0 <= row["unavailable_ms"] <= row["elapsed_ms"]
    [batch] = as_arrow(iter(rows))
    assert batch.schema.names == list(COLUMNS)
    assert [tuple(one.values()) for one in batch.to_pylist()] == rows
    assert len(COLUMNS) == 4 + len(VERDICT_KINDS) + 9 + len(ALL_FAULT_KINDS) + len(MARKS)


def test_a_world_that_goes_in_circles_is_stuck_not_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting messages, not time, ends it; the row says why."""
    monkeypatch.setattr("tidelog.lab.world.world.MOST_DELIVERIES", 3)
    with pytest.raises(Stuck, match="still some in flight"):
        World(CELL.scenario().setup, lambda event: None)


@pytest.mark.parametrize(
    ("deed", "outcome", "reason"),
    [
        ("raise", "crashed", "ZeroDivisionError: here"),
        ("die", "crashed", "the process was ended by signal 9"),
        ("leave", "crashed", "the process ended with code 3"),
        ("hang", "stuck", "the simulation did not end in time"),
    ],
)
def test_one_bad_trial_costs_one_row(
    monkeypatch: pytest.MonkeyPatch, deed: str, outcome: str, reason: str
) -> None:
    """A trial that raises, kills its process, leaves it or never ends gets a row with its seed and the
    reason; all others are played."""
    real = decide_randomly

    def decide(trial: Schedule, dice: Random) -> None:
        if trial.operations == OPERATIONS and dice.getstate() == player_dice(40):
            if deed == "raise":
                raise ZeroDivisionError("here")
            if deed == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if deed == "leave":
                os._exit(3)
            time.sleep(600)
        real(trial, dice)

    monkeypatch.setattr(
        player, "play", lambda scenario, seed, **choices: play(scenario, seed, decide=decide, **choices)
    )
    cell = Cell(faults="crash")
    rows = list(play_guarded([Block(cell.name, 30, 50)], patience_s=2.0 if deed == "hang" else 60.0))
    monkeypatch.undo()
    assert [row[1] for row in rows] == list(range(30, 50))
    assert as_dicts(iter(rows))[10] | {"outcome": outcome, "reason": reason} == as_dicts(iter(rows))[10]
    assert rows[:10] + rows[11:] == [*rows_of(Block(cell.name, 30, 40)), *rows_of(Block(cell.name, 41, 50))]


def player_dice(seed: int) -> object:
    """The state of the dice at the beginning of a trial."""
    return Random(seed).getstate()


def test_a_tally_of_a_crash_is_a_row_of_zeros() -> None:
    """Nothing is counted that was not judged."""
    row = dict(zip(COLUMNS, row_of("c", 1, count.TrialCounts("crashed", "why")), strict=True))
    assert (row["outcome"], row["reason"], row["lost"], row["sent"]) == ("crashed", "why", 0, 0)


def test_only_code_decides_whether_a_sweep_can_go_on() -> None:
    """A comment, a docstring or another format changes no trial; a number does."""
    plain = "LIMIT = 3\n\n\ndef f(x: int) -> int:\n    return x + LIMIT\n"
    worded = (
        '"""What it is."""\n\nLIMIT = 3  # enough\n"""Why."""\n\ndef f(x: int) -> int:\n'
        '    """What it does."""\n    return (x\n        + LIMIT)\n'
    )
    assert store._code_of(worded) == store._code_of(plain)
    assert store._code_of(plain.replace("3", "4")) != store._code_of(plain)
