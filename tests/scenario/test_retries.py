"""Producers that retry, in every scenario of the catalogue in which messages are lost or late."""

from __future__ import annotations

import runpy
from pathlib import Path
from random import Random

import pytest
from docs.reference.make_retries import has_network_faults, most_copies, with_retries
from tests.effort import tries

from tidelog.core.generations import GENERATIONS
from tidelog.lab.play import run
from tidelog.lab.search.schedule import FaultChoice, Schedule, decide_randomly
from tidelog.lab.search.search import SearchOptions
from tidelog.lab.world.snapshot import judge
from tidelog.lab.world.world import World
from tidelog.scenario import catalogue

ROOT = Path(__file__).parents[2]
FAULTY = [name for name in catalogue.names() if has_network_faults(catalogue.load(name))]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_idempotence_leaves_no_duplicates(generation: str) -> None:
    """Under any rules. Under those that lose nothing there is never a second copy anywhere, not even one that
    is cut off later."""
    for name in FAULTY:
        played = run(with_retries(catalogue.load(name).under(generation), idempotent=True))
        assert played.verdict.duplicated == [], name
        if generation in ("epoch", "majority"):
            assert most_copies(played) <= 1, name


def test_without_idempotence_a_lost_answer_makes_a_copy() -> None:
    """Producers that only retry leave duplicates in some of them: the page says in which, and is current."""
    page = (ROOT / "docs" / "reference" / "retries.md").read_text("utf-8")
    assert runpy.run_path(str(ROOT / "docs" / "reference" / "make_retries.py"))["page"]() == page
    assert "| cut-follower-leader | 4 | b | 1 |  |" in page


class NoObserver:
    """Watches nothing: what matters here is only the end."""

    def attach(self, world: World) -> None: ...
    def __call__(self, event: object) -> None: ...
    def at_end(self) -> None: ...


def duplicates(seed: int, *, idempotent: bool) -> list[str]:
    """What is stored twice after a random schedule of cuts, crashes, pauses and elections."""
    scenario = SearchOptions(retries=3, idempotent=idempotent).scenario()
    trial = Schedule(scenario, 12, FaultChoice(), NoObserver())
    trial.begin()
    decide_randomly(trial, Random(seed))
    trial.finish()
    return [str(finding["value"]) for finding in judge(trial.world).duplicated]


def test_random_schedules() -> None:
    """Seeds that leave duplicates with producers that only retry leave none with idempotent ones; nor do any
    others."""
    seeds = range(tries(150))
    assert sum(bool(duplicates(seed, idempotent=False)) for seed in seeds) > 10
    found = {seed: twice for seed in seeds if (twice := duplicates(seed, idempotent=True))}
    assert found == {}
