"""What an invariant is: a small observer that may say "this must never have happened"."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from tidelog.scenario.violations import Broken, Grade

if TYPE_CHECKING:
    from tidelog.lab.invariants.committed import CommitHistory
    from tidelog.lab.world.world import World


Handlers = dict[type, Callable[[Any], None]]


class Invariant:
    """Checked at every step, through the events of the step; and once more when everything is quiet."""

    name: ClassVar[str]
    claim: ClassVar[str]
    grade: ClassVar[Grade] = Grade.DATA

    def __init__(self, world: World, history: CommitHistory) -> None:
        self.world = world
        self.history = history

    def handlers(self) -> Handlers:
        """The events that this invariant looks at."""
        return {}

    def at_end(self) -> None:
        """Called once, when all faults are healed and the cluster has had time to converge."""

    def broken(self, message: str) -> Broken:
        return Broken(self.name, message, self.grade)
