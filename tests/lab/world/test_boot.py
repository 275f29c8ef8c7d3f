"""Booted worlds that share what cannot change: each as if booted from nothing, and alone."""

from random import Random

import pytest

from tidelog.core.generations import GENERATIONS
from tidelog.lab.search.count import CountedTrial, play
from tidelog.lab.search.schedule import ALL_FAULT_KINDS, FaultChoice, Violation, decide_randomly
from tidelog.lab.search.search import SearchOptions
from tidelog.lab.search.shrink import shrink
from tidelog.lab.world.boot import booted
from tidelog.lab.world.snapshot import take
from tidelog.lab.world.world import World
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.violations import Broken

EVERYTHING = FaultChoice(ALL_FAULT_KINDS)


def scenario(generation: str = "epoch") -> Scenario:
    return SearchOptions(generation=generation).scenario()


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_copy_is_like_the_original(generation: str) -> None:
    """The state after booting is that of a world that was not copied, and so is what comes of a schedule."""
    setup = scenario(generation).setup
    fresh = World(setup, lambda event: None)
    copy = booted(setup, lambda event: None)
    assert take(copy) == take(fresh)
    for world in (fresh, copy):
        world.crash(0, power=True)
        world.advance(20_000)
        world.start(0)
        world.advance(20_000)
    assert take(copy) == take(fresh)
    assert copy.network.messages_sent == fresh.network.messages_sent


def test_worlds_do_not_meet() -> None:
    """Trials played one after the other, or in the opposite order, come out the same."""
    seeds = list(range(8))
    there = {seed: play(scenario(), seed, operations=12, faults=EVERYTHING) for seed in seeds}
    back = {seed: play(scenario(), seed, operations=12, faults=EVERYTHING) for seed in reversed(seeds)}
    assert there == back


def test_a_stopped_keeper_is_started_again_in_the_end() -> None:
    """A trial mends what it broke, and a schedule that was made smaller mends what is left of it."""
    stories = []
    for seed in range(12):
        kinds = tuple(kind for kind in ALL_FAULT_KINDS if kind not in ("crash", "cut"))
        trial = CountedTrial(scenario(), 8, FaultChoice(kinds))
        trial.begin()
        decide_randomly(trial, Random(seed))
        trial.finish()
        assert all(trial.world.quorum.running.values())
        stories += [trial.as_scenario()] if trial.injected["keeper"] else []
        assert [kind for kind, count in trial.injected.items() if count and kind in ("crash", "cut")] == []
    assert stories

    def keeper_stops(tried: Scenario, _judge_end: bool) -> Broken | None:
        verbs = [step.verb for step in tried.steps]
        return Broken("stopped", "it does") if "keeper-stop" in verbs else None

    small = shrink(Violation(stories[0], "stopped", "it does", 0), budget=300, trouble=keeper_stops)
    verbs = [step.verb for step in small.scenario.steps]
    assert verbs.count("keeper-stop") == verbs.count("keeper-start") == 1
