"""A soak is rounds of trials: how they are cut, what is kept of each, and what they come to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS
from soak.processes import Brokers, of_session
from soak.rounds import Plan, Round, require_room
from soak.table import lines
from tests.broker.running import eventually
from tests.cluster.holding import held

HELD = Round(
    1, 7, code=0, seconds=60.0, ok=10, sent=10, faults={"kill": 3, "power": 2, "cut": 1}, audited=True
)


def plan(seconds: float, round_seconds: float, rate: float = 1_000.0) -> Plan:
    return Plan(seconds=seconds, round_seconds=round_seconds, seed=1, rate=rate, every=3.0)


def test_rounds_are_equal_and_none_is_too_long() -> None:
    assert plan(3_600, 900).lengths() == [900.0] * 4
    assert plan(300, 900).lengths() == [300.0]
    assert plan(1_000, 900).lengths() == [500.0, 500.0]


def test_a_round_that_does_not_fit_the_disk_is_refused(tmp_path: Path) -> None:
    assert require_room(tmp_path, plan(60, 60)) is None
    why = require_room(tmp_path, plan(60, 60, rate=1e12))
    assert why is not None
    assert "give a smaller --rate or --round-minutes" in why


# ---------------------------------------------------------------- the table


def table(*rounds: Round) -> dict[str, str]:
    """The first line of each label."""
    found: dict[str, str] = {}
    for line in lines(rounds):
        found.setdefault(line[:12].strip(), line[12:])
    return found


def test_totals_are_those_of_all_rounds() -> None:
    other = Round(2, 8, code=0, seconds=120.0, ok=5, sent=6, unknown=1, faults={"kill": 1, "clock": 1})
    other.outages, other.outage_seconds_max = 3, 12.5
    told = table(HELD, other)
    assert told["soak"] == "rounds 2 · 3.0 min of load · seeds 7 to 8"
    assert told["faults"] == "kill 4 · power 2 · cut 1 · clock 1"
    assert told["sends"] == "16 · 15 acknowledged · 0 failed · 1 unknown"
    assert told["outages"] == "3 over a second, the longest 12.5 s"
    assert told["audit"] == "1 of 2 rounds: no violation"
    assert told["verdict"] == "Every promise held."


@pytest.mark.parametrize(
    ("bad", "verdict"),
    [
        (Round(2, 8, code=1, lost=1), "A promise was broken."),
        (Round(2, 8, code=2), "Not every round could be judged."),
        (Round(2, 8, code=0, left=1), "Every promise held, but not everything was in order."),
        (Round(2, 8, code=0, tracebacks=1), "Every promise held, but not everything was in order."),
    ],
)
def test_one_bad_round_spoils_the_verdict(bad: Round, verdict: str) -> None:
    assert table(HELD, bad)["verdict"] == verdict


# ---------------------------------------------------------------- processes


def test_brokers_are_followed_through_their_lives(tmp_path: Path) -> None:
    """Their memory, how long they lived, and those that are left."""
    brokers = Brokers(tmp_path)
    brokers.look(0.0)
    assert brokers.count == 0
    with held(tmp_path / "cluster") as process:
        for now in (0.0, 5.0, 20.0, 45.0):
            brokers.look(now)
        seconds, first, last = brokers.oldest()
        assert seconds == 45.0
        assert 0 < first <= brokers.bytes_max >= last > 0
        assert brokers.left() == [process.pid]
    assert brokers.left() == []


def test_a_session_is_all_that_its_leader_started() -> None:
    script = "import subprocess, sys; subprocess.Popen(['sleep', '600']); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as leader:
        try:
            assert leader.stdout is not None
            leader.stdout.readline()
            assert len(of_session(leader.pid)) == 2
            leader.kill()
            leader.wait()
            assert len(of_session(leader.pid)) == 1
        finally:
            os.killpg(leader.pid, signal.SIGKILL)
            eventually(lambda: not of_session(leader.pid), "nothing is left")


# ---------------------------------------------------------------- for real


@pytest.mark.slow
def test_a_soak_that_is_interrupted(tmp_path: Path) -> None:
    """The running round is healed and judged, the others are not begun. Nothing is lost, nothing runs on, and
    little is kept."""
    out = tmp_path / "out"
    words = ("--hours", "10", "--rate", "200", "--every", "0.5", "--seed", "3", "--no-audit", "--json")
    more = ("--out", str(out), "--", "--partitions", "2", "--producers", "2", "--consumers", "1")
    with subprocess.Popen(
        [sys.executable, "-m", "soak", *words, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    ) as soak:
        try:
            faults = out / "round-1" / "journal" / "faults.jsonl"
            eventually(lambda: faults.exists() and faults.read_text(), "a fault")
            soak.send_signal(signal.SIGINT)
            printed, said = soak.communicate(timeout=PATIENCE_SECONDS)
        finally:
            soak.kill()
    assert soak.returncode == 0, said
    (only,) = (Round(**row) for row in json.loads(printed))
    assert (only.code, only.lost, only.left, only.tracebacks) == (0, 0, 0, 0)
    assert only.ok > 0
    assert sum(only.faults.values()) > 0
    assert only.brokers >= 3
    assert only.bytes_max > 1 << 20
    assert [path.name for path in (out / "round-1").rglob("*")] == ["trial.json"]
