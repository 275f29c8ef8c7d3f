"""The search finds what is known to be wrong, finds nothing where nothing is known to be wrong, and what it
finds can be replayed and is small."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from tests.effort import tries

from tidelog.cli.options import faults_named
from tidelog.lab.play import first_failure, run
from tidelog.lab.search.finding_file import command_line
from tidelog.lab.search.schedule import FaultChoice
from tidelog.lab.search.search import SearchOptions, search
from tidelog.lab.search.shrink import shrink
from tidelog.narrate.transcript import print_transcript
from tidelog.scenario.scenario import parse, print_scenario
from tidelog.scenario.violations import Grade

CRASH_ONLY = FaultChoice(("crash",))

UNSAFE = {
    "truncation by high watermark": SearchOptions(generation="hw"),
    "truncation by high watermark, pct": SearchOptions(generation="hw", strategy="pct"),
    "one question about epochs": SearchOptions(generation="kip101", strategy="pct"),
    "unclean election": SearchOptions(unclean=True),
    "acks=1": SearchOptions(acks=1),
    "acks=0": SearchOptions(acks=0),
    "power loss without flush": SearchOptions(faults=FaultChoice().also("power")),
    "power loss under majority": SearchOptions(generation="majority", faults=FaultChoice().also("power")),
}
SAFE = {
    "epochs": SearchOptions(),
    "epochs, pct": SearchOptions(strategy="pct"),
    "epochs with min.insync.replicas=2": SearchOptions(min_insync=2),
    "epochs with two replicas": SearchOptions(replicas=2, operations=8),
    "epochs, idempotent": SearchOptions(idempotent=True),
    "epochs with power loss and flush": SearchOptions(faults=FaultChoice().also("power"), flush_always=True),
    "majority": SearchOptions(generation="majority"),
    "majority, pct": SearchOptions(generation="majority", strategy="pct"),
}


@pytest.mark.parametrize("options", UNSAFE.values(), ids=UNSAFE.keys())
def test_a_search_finds_the_loss_that_the_settings_allow(options: SearchOptions) -> None:
    """Where records can be lost or changed, a few thousand schedules are enough to see it happen."""
    result = search(replace(options, schedules=4_000))
    assert result.finding is not None
    assert result.finding.grade is Grade.DATA


@pytest.mark.parametrize("options", SAFE.values(), ids=SAFE.keys())
def test_a_search_finds_nothing_where_the_rules_are_sound(options: SearchOptions) -> None:
    """No schedule of many breaks anything, not even a rule of structure, and all recover."""
    schedules = tries(150)
    result = search(replace(options, schedules=schedules), stop_at=Grade.LIVENESS)
    assert result.finding is None
    assert result.schedules == schedules


def test_idempotent_producers_leave_no_duplicates() -> None:
    """Whatever is retried in whatever network, an idempotent producer's record is in the log once."""
    from random import Random

    from tidelog.lab.search.schedule import Schedule, decide_randomly
    from tidelog.lab.world.snapshot import judge

    def duplicates(options: SearchOptions) -> int:
        found = 0
        for seed in range(150):
            trial = Schedule(options.scenario(), 10, FaultChoice())
            trial.begin()
            decide_randomly(trial, Random(seed))
            trial.finish()
            found += len(judge(trial.world).duplicated)
        return found

    assert duplicates(SearchOptions(retries=3)) > 0
    assert duplicates(SearchOptions(retries=3, idempotent=True)) == 0


def test_a_finding_shrinks_to_a_small_schedule_that_fails_the_same_way() -> None:
    """The minimal schedule breaks the same invariant, and no single step of it can be left out."""
    finding = search(SearchOptions(generation="hw", schedules=4_000)).finding
    assert finding is not None
    small = shrink(finding)
    assert len(small.scenario.steps) <= 40 < len(finding.scenario.steps)
    failure = first_failure(small.scenario)
    assert failure is not None
    assert failure.name == finding.invariant
    for index, step in enumerate(small.scenario.steps):
        if step.verb in ("wait", "release", "heal", "restart", "resume"):
            continue  # the recovery belongs to the claim
        shorter = small.scenario.steps[:index] + small.scenario.steps[index + 1 :]
        other = first_failure(replace(small.scenario, steps=shorter))
        assert other is None or other.name != finding.invariant, f"{step} is not needed"


def test_a_printed_schedule_replays_byte_for_byte() -> None:
    """Printing a found schedule, reading the file and playing it gives the transcript of the finding."""
    finding = search(SearchOptions(generation="hw", strategy="pct", schedules=4_000)).finding
    assert finding is not None
    text = print_scenario(finding.scenario)
    again = parse(text)
    assert print_scenario(again) == text
    assert print_transcript(run(again)) == print_transcript(run(finding.scenario))
    assert finding.invariant in {broken.name for broken in run(again).broken}


def test_one_seed_names_one_schedule() -> None:
    """Two searches from one seed find the same thing at the same schedule."""
    options = SearchOptions(generation="hw", seed=7, schedules=4_000)
    first, second = search(options), search(options)
    assert first.finding is not None
    assert second.finding is not None
    assert first.schedules == second.schedules
    assert print_scenario(first.finding.scenario) == print_scenario(second.finding.scenario)


STORY = """
scenario story
cluster brokers=4 controller=3 zookeeper.session.timeout.ms=3000 replica.fetch.wait.max.ms=2000
topic t replicas=0,1,2
producer p zone=az4 acks=all
produce p a
crash 0
"""


def test_the_exhaustive_search_covers_its_space() -> None:
    """From an acknowledged record and a dead leader, every further single crash is tried: under hw one of
    them loses the record, under epoch none does."""
    options = SearchOptions(
        strategy="exhaustive", depth=1, operations=1, faults=CRASH_ONLY, story=parse(STORY)
    )
    hw = search(replace(options, generation="hw"))
    assert hw.finding is not None
    assert hw.finding.invariant == "committed-survives"
    epoch = search(replace(options, generation="epoch"), stop_at=Grade.LIVENESS)
    assert epoch.finding is None
    assert epoch.exhausted
    assert epoch.schedules > 50


def test_an_interrupted_search_keeps_what_it_found() -> None:
    """The caller's result is filled as the search goes, so an interruption loses nothing."""
    from tidelog.lab.search.search import SearchResult

    result = SearchResult()

    def interrupt(done: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(SearchOptions(schedules=100), progress=interrupt, result=result)
    assert result.schedules == 5


@pytest.mark.parametrize(
    "kinds", [("crash", "zone", "blackout", "keeper"), ("crash", "power"), ("below_min_isr",), ()]
)
def test_the_command_of_a_finding_names_all_its_faults(kinds: tuple[str, ...]) -> None:
    """Otherwise the same seed names another schedule."""
    words = shlex.split(command_line(SearchOptions(faults=FaultChoice(kinds)), seed=7))
    named = words[words.index("--faults") + 1]
    again = faults_named(named, power="--power-loss" in words, budget=6)
    assert set(again.kinds) == set(kinds)
