"""``tidelog sweep`` as people call it: what is refused, one trial again, killed half-way and resumed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from tests.cli.calling import call, refused

from tidelog.lab.play import run
from tidelog.pipeline.sweep.cells import Cell
from tidelog.scenario.scenario import parse

DEADLINE_S = 280.0


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (
            ["--generation", "raft"],
            "unknown generation 'raft': choose one of hw, kip101, epoch, elr, majority",
        ),
        (["--faults", "fire"], "unknown fault 'fire'"),
        (["--replicas", "many"], "--replicas many: write whole numbers, separated by commas"),
        (["--unclean", "maybe"], "--unclean maybe: write no, yes or no,yes"),
        (["--replicas", "1", "--min-insync", "2", "--acks", "all"], "no combination of this grid can be"),
        (["nowhere.toml"], "nowhere.toml: no such file or directory"),
        (["--save", "x"], "--save needs --replay"),
        (["--replay", "something"], "something is not a trial: write CELL:SEED"),
        (["--replay", "something:1"], "something is not the name of a cell"),
        (["--replay", Cell(replicas=1, min_insync=2).name + ":1"], "1 replicas never meet"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words: list[str], answer: str) -> None:
    """Before Spark is started, with exit code 2."""
    assert answer in refused(call("sweep", *words))


def test_one_trial_again(tmp_path: Path) -> None:
    """--replay gives the scenario of a trial, which shows what the sweep counted; the exit code says whether
    a promise was broken."""
    cell = Cell(acks="1", faults="all")
    codes = set()
    for seed in range(6):
        answer = call("sweep", "--replay", f"{cell.name}:{seed}")
        verdict = run(parse(answer.out)).verdict
        assert answer.code == (0 if verdict.held else 1)
        codes.add(answer.code)
    assert codes == {0, 1}
    saved = call("sweep", "--replay", f"{cell.name}:0", "--save", str(tmp_path / "x.scenario"))
    assert "Written to" in saved.out
    assert parse((tmp_path / "x.scenario").read_text()).name == f"{cell.name}.0"


def sweep_process(folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tidelog", "sweep", "--out", str(folder), "--seeds", "700"]
    command += ["--generation", "epoch", "--acks", "1,all", "--faults", "crash", "--min-insync", "1"]
    command += ["--unclean", "no", "--flush", "roll", "--master", "local[2]", *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for_files(process: subprocess.Popen[str], folder: Path, number: int) -> None:
    deadline = monotonic() + DEADLINE_S
    while len(list((folder / "trials").glob("part-*.parquet"))) < number:
        assert process.poll() is None, process.communicate()
        assert monotonic() < deadline
        sleep(0.05)


@pytest.mark.long
@pytest.mark.slow
def test_a_killed_sweep_goes_on(tmp_path: Path) -> None:
    """kill -9 half-way: what was played is whole files, the same command plays the rest, and every trial is
    there once."""
    folder = tmp_path / "atlas"
    first = sweep_process(folder)
    try:
        wait_for_files(first, folder, 2)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
    kept = pq.read_table(folder / "trials", columns=["cell", "seed"]).num_rows
    assert 0 < kept < 1400
    again = sweep_process(folder, "--json")
    out, err = again.communicate(timeout=DEADLINE_S)
    assert again.returncode == 0, err
    found = json.loads(out)
    assert found["trials"] == 1400
    rows = pq.read_table(folder / "trials", columns=["cell", "seed"]).to_pylist()
    assert len(rows) == len({(row["cell"], row["seed"]) for row in rows}) == 1400
    said = re.search(r"([\d,]+) trials already played", err)
    assert said is not None
    assert int(said[1].replace(",", "")) == kept


@pytest.mark.long
@pytest.mark.slow
def test_an_interrupted_sweep_says_so_in_one_line(tmp_path: Path) -> None:
    """Ctrl-C: no trace of Java or Python, exit code 2, and the way to go on."""
    folder = tmp_path / "atlas"
    process = sweep_process(folder)
    wait_for_files(process, folder, 1)
    for _ in range(2):  # Ctrl-C twice
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert "Traceback" not in err
    assert "run the same command again to resume" in err.splitlines()[-1]


@pytest.mark.long
@pytest.mark.slow
def test_a_sweep_of_days_asks_first(tmp_path: Path) -> None:
    """It says how long it would take, and starts nothing without --yes."""
    process = sweep_process(tmp_path / "atlas", "--seeds", "100000000")
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert re.search(r"this sweep would take about [\d.]+ (h|days): give --yes to start it", err)
    assert not (tmp_path / "atlas" / "trials").exists()
