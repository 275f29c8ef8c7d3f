"""What a fault is: one kind of failure, everything about it in one file.

A fault has two lives. A *search* in the simulator asks for every way to do it now (`options`) and takes one,
as a step of a scenario. A *trial* on processes draws it beforehand (`groups`, `duration_ms`, `draw`), has it
in its schedule by `name`, and does it at its time (`inject`, `undo`). Scenario files have it under `verb`.

Seeds name schedules: the order of `FAULTS`, of `options` and of what `draw` asks of the dice is part of what
is published.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import ClassVar, NamedTuple

from tidelog.faults.damage import Damage
from tidelog.faults.places import Node
from tidelog.faults.step import Step
from tidelog.faults.targets import Moot, Takes, Targets
from tidelog.faults.testbed import Ability, ProcessView, Testbed


class Words(NamedTuple):
    en: str
    zh: str


@dataclass(slots=True)
class SearchView:
    """What a fault may look at when it says how it could be done now."""

    running: list[int]
    zone_of: Callable[[Node], str]
    zones: Sequence[str]
    links_cut: bool
    keepers_up: Sequence[int]
    replicas: tuple[int, ...]
    min_insync: int


@dataclass(slots=True, frozen=True)
class Grounds:
    """The cluster that a schedule is drawn for."""

    zones: Mapping[int, str] = field(default_factory=dict)
    """The zone of each broker."""
    min_insync: int = 1


class Absence(Enum):
    """What is away while a fault lasts: a schedule sees to it that not too much is away at once."""

    NOTHING = "nothing"
    BROKERS = "brokers"
    KEEPER = "keeper"


class Fault(ABC):
    """One kind of failure: what it hits, how it is done and undone, its names. No state of its own."""

    name: ClassVar[str]
    """In evidence, in `trial --faults`."""
    alias: ClassVar[str] = ""
    """In searches, sweeps and the atlas, where that is another one."""
    words: ClassVar[Words]

    # ------------------------------------------------------------ scenario files
    verb: ClassVar[str] = ""
    takes: ClassVar[Takes] = Takes.NOTHING
    says: ClassVar[Words | None] = None
    """What the page says about such a step, with its arguments as `{list}`. None: `narrate/words` has it."""

    # ------------------------------------------------------------ where it exists
    min_insync_min: ClassVar[int] = 1
    """Topics with a smaller min.insync.replicas do not have it."""

    # ------------------------------------------------------------ what it leaves behind
    leaves: ClassVar[Damage | None] = None
    ends: ClassVar[tuple[Damage, ...]] = ()
    """What a broker no longer suffers from once this has happened to it."""

    # ------------------------------------------------------------ searches
    searched: ClassVar[bool] = False
    covered_by: ClassVar[tuple[str, ...]] = ()
    """Names of faults whose options include all of this one's."""

    # ------------------------------------------------------------ trials
    weight: ClassVar[int] = 0
    """How often it is drawn, against the others. 0: trials do not have it."""
    by_default: ClassVar[bool] = True
    """Whether `all` includes it."""
    needs: ClassVar[frozenset[Ability]] = frozenset()
    away: ClassVar[Absence] = Absence.BROKERS
    missed: ClassVar[bool] = False
    """It lasts until it is noticed, at least."""
    exceeds_down_max: ClassVar[bool] = False
    """More brokers may be away at once than the schedule allows otherwise."""
    has_amount: ClassVar[bool] = False
    heal_rank: ClassVar[int] = 1
    """What is undone first when everything is healed: 0; what last: 2."""

    @property
    def search_name(self) -> str:
        return self.alias or self.name

    @property
    def restarts(self) -> bool:
        """Brokers are started when it ends, for which they need the keeper."""
        return self.leaves is not None and self.leaves.restarts

    def impossible(self, min_insync: int) -> str | None:
        """Why it cannot happen to a topic, whatever else happens; None if it can."""
        if min_insync >= self.min_insync_min:
            return None
        return (
            f"{self.search_name} needs min.insync.replicas of {self.min_insync_min} or more, not {min_insync}"
        )

    def options(self, view: SearchView) -> list[Step]:
        """Every way to do it now, in a fixed order."""
        return []

    def is_step(self, step: Step, zone_of: Callable[[Node], str], brokers: Sequence[int]) -> bool:
        """Whether a step of a search does this."""
        return bool(self.verb) and step.verb == self.verb

    def groups(self, grounds: Grounds) -> list[list[int]]:
        """Which brokers it may take away together."""
        return [[broker] for broker in grounds.zones]

    def duration_ms(self, dice: Random, session_ms: int) -> int:
        if not self.missed and dice.random() < 0.3:  # too short for an election meanwhile
            return dice.randrange(session_ms // 10, session_ms)
        return dice.randrange(session_ms, 2 * session_ms)

    def draw(self, dice: Random, group: list[int], grounds: Grounds) -> tuple[str, ...]:
        """Its targets, as they are kept in a schedule, on a group that was chosen."""
        return tuple(map(str, group))

    def moot(self, bed: ProcessView, targets: Targets) -> Moot | None:
        """Why a step would do nothing."""
        return None

    def inject(self, bed: Testbed, targets: Targets) -> Moot | None:
        raise NotImplementedError

    def undo(self, bed: Testbed, targets: Targets) -> None:
        if self.leaves is not None:
            self.leaves.mend(bed, targets)
