"""What an invariant is: a small observer that may say "this must never have happened"."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from tidelog.lab.invariants.history import CommitHistory
    from tidelog.lab.world import World


class Grade(Enum):
    """How bad it is when an invariant does not hold."""

    DATA = "data"
    """Records are lost, changed or different from replica to replica: somebody was told an untruth."""
    STRUCTURE = "structure"
    """A rule is broken from which loss can follow; a search goes on to see whether it does."""
    LIVENESS = "liveness"
    """Nothing is wrong, but the cluster does not recover."""

    def milder_than(self, other: Grade) -> bool:
        order = (Grade.LIVENESS, Grade.STRUCTURE, Grade.DATA)
        return order.index(self) < order.index(other)


Handlers = dict[type, Callable[[Any], None]]


class Broken(Exception):
    """An invariant does not hold. ``name`` is the invariant, the message says what was seen."""

    def __init__(self, name: str, message: str, grade: Grade = Grade.DATA) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.grade = grade
        self.message = message


class Invariant:
    """Checked at every step, through the events of the step; and once more when everything is quiet."""

    name: ClassVar[str]
    claim: ClassVar[str]
    grade: ClassVar[Grade] = Grade.DATA

    def __init__(self, world: World, history: CommitHistory) -> None:
        self.world = world
        self.history = history

    def handlers(self) -> Handlers:
        """Which events this invariant wants to see."""
        return {}

    def at_end(self) -> None:
        """Called once, when all faults are healed and the cluster has had time to converge."""

    def broken(self, message: str) -> Broken:
        return Broken(self.name, message, self.grade)
