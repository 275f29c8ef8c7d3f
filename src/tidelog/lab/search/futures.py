"""When a story was decided: from each of its steps random futures, and the share of them that loses a record.

A *future* of a step is the story up to that step, continued with messages in random order and a few random
faults, then healed and given time: a schedule of the explorer, without operations of its own. It loses if a
record that a producer was promised is missing in the end. Where the share rises, the story was decided.

Every step gets the same seeds, so shares of neighbouring steps differ by what the step did more than by
chance. The futures of one seed are played for all steps before those of the next: a caller that stops early
has a coarser curve, not half of one. The result depends on scenario and options alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

from tidelog.core.types import InvariantViolation
from tidelog.lab.search.count import EventCounter
from tidelog.lab.search.schedule import FaultChoice, Schedule, decide_randomly
from tidelog.lab.world.snapshot import judge
from tidelog.lab.world.world import Stuck
from tidelog.scenario.scenario import Scenario

FUTURES_MAX = 200
_LEAST_RISE = 0.2
"""Smaller rises of a share may be chance."""


@dataclass(slots=True, frozen=True)
class FutureOptions:
    futures: int = 200
    """How many futures from each step."""
    seed: int = 0
    faults: FaultChoice = field(default_factory=lambda: FaultChoice(budget=2))


@dataclass(slots=True)
class Futures:
    """How the futures of each step ended; step 0 is the cluster before the first one."""

    played: list[int]
    lost: list[int]

    @property
    def shares(self) -> list[float]:
        """Of each step the share of its futures that loses a record."""
        return [lost / played if played else 0.0 for lost, played in zip(self.lost, self.played, strict=True)]

    @property
    def decided_at(self) -> int | None:
        """The step with which the share rises most, if it rises much at any."""
        shares = self.shares
        rises = [after - before for before, after in pairwise(shares)]
        if not rises or max(rises) < _LEAST_RISE:
            return None
        return rises.index(max(rises)) + 1


def futures(scenario: Scenario, options: FutureOptions | None = None) -> Futures:
    """Play all futures of all steps."""
    found = no_futures(scenario)
    for _ in playing_futures(scenario, options or FutureOptions(), found):
        pass
    return found


def no_futures(scenario: Scenario) -> Futures:
    """The result before anything is played."""
    steps = len(scenario.steps) + 1
    return Futures([0] * steps, [0] * steps)


def playing_futures(scenario: Scenario, options: FutureOptions, found: Futures) -> Iterator[int]:
    """Play a future at a time into ``found``: how many have been played."""
    played = 0
    for number in range(options.futures):
        for step in range(len(found.played)):
            story = replace(scenario, steps=scenario.steps[:step], expectations=[])
            found.lost[step] += _loses(story, options.seed + number, options.faults)
            found.played[step] += 1
            played += 1
            yield played


def _loses(story: Scenario, seed: int, faults: FaultChoice) -> bool:
    trial = Schedule(story, 0, faults, EventCounter(acks=0))
    try:
        trial.begin()
        decide_randomly(trial, Random(seed))
        trial.finish()
    except (Stuck, InvariantViolation):
        pass  # what is lost by then is lost
    return bool(judge(trial.world).lost)
