"""What happened in random trials obeys the generation's rules, by the rule that each event names.

`pytest --effort 100` tries a hundred times as many trials.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from tests.effort import tries

from tidelog.core import events as e
from tidelog.core.generations import GENERATIONS
from tidelog.core.reasons import ElectionKind, StateWriteReason, TruncationRule
from tidelog.core.types import NO_LEADER, InvariantViolation, PartitionState
from tidelog.lab.search.count import play
from tidelog.lab.search.schedule import DECIDERS, FaultChoice, Schedule
from tidelog.lab.search.search import SearchOptions
from tidelog.lab.world.world import Stuck, World
from tidelog.pipeline.sweep.atlas.coverage import CANNOT_BE

TRIALS = tries(120)
FIRST_SEED = {"hw": 400}
"""The first trials of hw hold no unclean election."""

LEADER_S_LOG = {TruncationRule.LEADER_LOG_SHORTER, TruncationRule.LEADER_LOG_STARTS_LATER}
EPOCHS = {
    TruncationRule.EPOCH_END_ON_LEADER,
    TruncationRule.EPOCH_END_HERE,
    TruncationRule.EPOCH_UNKNOWN,
}
ALLOWED = {
    "hw": {TruncationRule.OWN_HIGH_WATERMARK} | LEADER_S_LOG,
    "kip101": {TruncationRule.OWN_HIGH_WATERMARK, TruncationRule.EPOCH_END_ON_LEADER} | LEADER_S_LOG,
    "epoch": EPOCHS | LEADER_S_LOG,
    "elr": EPOCHS | LEADER_S_LOG,
    "majority": EPOCHS | LEADER_S_LOG,
}
"""By which rules a follower may cut its log."""
OF_ELR = {ElectionKind.ELIGIBLE, ElectionKind.LAST_KNOWN_LEADER}
NOT_IN_SYNC = OF_ELR | {ElectionKind.UNCLEAN}


class Observed:
    """A witness that keeps what it sees."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def attach(self, world: World) -> None:
        pass

    def __call__(self, event: object) -> None:
        self.events.append(event)

    def at_end(self) -> None:
        pass


def options(generation: str, seed: int) -> SearchOptions:
    """Clusters that lose, fork and elect in many ways."""
    rare = (("power", 5), ("keeper", 7), ("blackout", 11))
    faults = FaultChoice().also(*(kind for kind, every in rare if seed % every == 0))
    return SearchOptions(
        generation=generation, unclean=bool(seed % 2), acks=(-1, 1, 0)[seed % 3], faults=faults
    )


def observed(generation: str, seed: int) -> list[object]:
    wanted, witness = options(generation, seed), Observed()
    trial = Schedule(wanted.scenario(), wanted.operations, wanted.faults, witness)
    try:
        trial.begin()
        DECIDERS["pct" if seed % 4 == 0 else "random"](trial, Random(seed))
        trial.finish()
    except (InvariantViolation, Stuck):
        pass  # what happened until then counts all the same
    return witness.events


@pytest.mark.parametrize("generation", GENERATIONS)
def test_logs_are_cut_by_the_rules_of_their_generation(generation: str) -> None:
    """No rule of epochs under hw, no truncation to the high watermark under epoch and majority; and a rule
    has the facts that it is about."""
    seen: Counter[TruncationRule] = Counter()
    for seed in range(TRIALS):
        for cut in (event for event in observed(generation, seed) if isinstance(event, e.Truncated)):
            seen[cut.rule] += 1
            assert cut.rule in ALLOWED[generation], (seed, cut)
            assert cut.after < cut.before, (seed, cut)
            assert (cut.epoch is not None) == (cut.rule in EPOCHS), (seed, cut)
            assert (cut.own_epoch is not None) == (cut.rule is TruncationRule.EPOCH_UNKNOWN), (seed, cut)
            if cut.rule in EPOCHS - {TruncationRule.EPOCH_UNKNOWN}:
                assert cut.after == cut.epoch_end, (seed, cut)
    usual = TruncationRule.OWN_HIGH_WATERMARK if generation == "hw" else TruncationRule.EPOCH_END_ON_LEADER
    assert seen[usual] > 0, "the trials show nothing"


@pytest.mark.parametrize("generation", GENERATIONS)
def test_an_election_is_of_the_kind_that_it_says(generation: str) -> None:
    """A clean or preferred leader was in sync, an unclean one was not, and only where that is allowed. Under
    majority there is no other election than by majority, and elsewhere none of these."""
    kinds: Counter[ElectionKind] = Counter()
    first = FIRST_SEED.get(generation, 0)
    for seed in range(first, first + TRIALS):
        states: dict[int, PartitionState] = {}
        elected: list[e.PartitionStateWritten] = []
        for event in observed(generation, seed):
            if isinstance(event, e.PartitionStateWritten):
                states[event.state.version] = event.state
                if isinstance(event.reason, ElectionKind):
                    elected.append(event)
                else:
                    # The dead may be taken out of an ISR while their leader stays; no one else comes to lead.
                    before = states.get(event.state.version - 1)
                    same = before is None or event.state.leader in (before.leader, NO_LEADER)
                    assert same or event.reason is StateWriteReason.CREATED, (seed, event)
        for event in elected:
            kind = event.reason
            assert isinstance(kind, ElectionKind)
            kinds[kind] += 1
            assert (kind is ElectionKind.MAJORITY) == (generation == "majority"), (seed, event)
            former = states.get(event.state.version - 1)
            # What a leader wrote just before it died may be known to the keeper alone.
            if former is not None and kind is not ElectionKind.MAJORITY:
                in_sync = event.state.leader in former.isr
                assert in_sync == (kind not in NOT_IN_SYNC), (seed, event, former)
                assert (kind is ElectionKind.ELIGIBLE) <= (event.state.leader in former.elr), (seed, event)
                last_known = (event.state.leader,) == former.last_known_elr
                assert (kind is ElectionKind.LAST_KNOWN_LEADER) <= last_known, (seed, event)
            assert generation == "elr" or kind not in OF_ELR, (seed, event)
            assert kind is not ElectionKind.UNCLEAN or options(generation, seed).unclean, (seed, event)
    by_isr = {ElectionKind.CLEAN, ElectionKind.UNCLEAN}
    wanted = {ElectionKind.MAJORITY} if generation == "majority" else by_isr
    if generation == "elr":
        wanted = OF_ELR
    assert wanted <= set(kinds), "the trials show too little"


@pytest.mark.parametrize("generation", GENERATIONS)
def test_what_an_atlas_calls_impossible_never_happens(generation: str) -> None:
    """The transitions that coverage leaves out because the rules do not have them."""
    for seed in range(TRIALS):
        wanted = options(generation, seed)
        tally = play(wanted.scenario(), seed, operations=wanted.operations, faults=wanted.faults)
        seen = {mark for mark, times in tally.marks.items() if times}
        assert not seen & set(CANNOT_BE[generation]), seed
        cuts = sum(times for mark, times in tally.marks.items() if mark.startswith("truncated_"))
        assert cuts == tally.marks["truncated"]
