"""One scenario, one transcript; one seed, one schedule: in any process, on any day."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS

from tidelog.core.generations import GENERATIONS
from tidelog.lab.play import run
from tidelog.lab.search.schedule import FaultChoice
from tidelog.lab.search.search import SearchOptions, search
from tidelog.narrate.transcript import print_transcript
from tidelog.scenario.scenario import parse, print_scenario
from tidelog.scenario.violations import Grade

ROOT = Path(__file__).resolve().parent.parent.parent

CATALOGUE = """
from tidelog.core.generations import GENERATIONS
from tidelog.lab.play import run
from tidelog.narrate.transcript import print_transcript
from tidelog.scenario import catalogue

for name in catalogue.names():
    for generation in GENERATIONS:
        print(print_transcript(run(catalogue.load(name).under(generation))))
"""

SEARCH = """
import sys
from tidelog.lab.search.schedule import FaultChoice
from tidelog.lab.play import run
from tidelog.lab.search.search import SearchOptions, search
from tidelog.narrate.transcript import print_transcript

generation, strategy = sys.argv[1:]
faults = FaultChoice(budget=8).also("power")
options = SearchOptions(generation, strategy, schedules=60, seed=5, acks=1, unclean=True, faults=faults)
result = search(options, stop_at=None)
print(result.schedules, result.broken)
assert result.finding is not None
print(result.finding.seed, result.finding.message)
print(print_transcript(run(result.finding.scenario)))
"""


def output(script: str, *arguments: str, hash_seed: int) -> bytes:
    """What a fresh process prints. Sets and dicts of strings are ordered differently for each hash seed."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_the_catalogue_is_the_same_in_two_processes() -> None:
    """Every transcript of every generation, byte for byte, whatever the hash seed."""
    one, other = output(CATALOGUE, hash_seed=0), output(CATALOGUE, hash_seed=12_345)
    assert len(one) > 100_000
    assert one == other


@pytest.mark.parametrize("strategy", ["random", "pct"])
@pytest.mark.parametrize("generation", ["hw", "epoch"])
def test_a_seed_names_a_schedule(generation: str, strategy: str) -> None:
    """The same seeds lead to the same findings, and to the same transcript of the worst, in two processes."""
    one, other = (output(SEARCH, generation, strategy, hash_seed=seed) for seed in (1, 999))
    assert one == other
    assert b"# Verdict" in one


@pytest.mark.parametrize("strategy", ["random", "pct"])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_found_schedule_replays_from_its_file(generation: str, strategy: str) -> None:
    """Printed as a scenario file and parsed back, a schedule plays to the identical transcript, and it breaks
    the invariant it was found for."""
    faults = FaultChoice(budget=8).also("power")
    options = SearchOptions(generation, strategy, schedules=200, seed=11, acks=1, unclean=True, faults=faults)
    finding = search(options, stop_at=Grade.DATA).finding
    assert finding is not None
    played = run(finding.scenario)
    again = run(parse(print_scenario(finding.scenario)))
    assert print_transcript(again) == print_transcript(played)
    assert finding.invariant in {broken.name for broken in again.broken}


def test_playing_twice_changes_nothing() -> None:
    """A scenario is a value: playing it leaves it as it was, and the second play is the same."""
    options = SearchOptions("hw", schedules=50, seed=3, acks=1)
    finding = search(options).finding
    assert finding is not None
    before = print_scenario(finding.scenario)
    assert print_transcript(run(finding.scenario)) == print_transcript(run(finding.scenario))
    assert print_scenario(finding.scenario) == before
