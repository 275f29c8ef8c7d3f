"""A rule that did not hold in a run, and how bad that is."""

from __future__ import annotations

from enum import Enum


class Grade(Enum):
    """How bad it is when an invariant does not hold."""

    DATA = "data"
    """Records are lost, changed or different from replica to replica: a client got a wrong answer."""
    STRUCTURE = "structure"
    """A rule is broken from which loss can follow; a search goes on to see whether it does."""
    LIVENESS = "liveness"
    """Nothing is wrong, but the cluster does not recover."""

    def milder_than(self, other: Grade) -> bool:
        order = (Grade.LIVENESS, Grade.STRUCTURE, Grade.DATA)
        return order.index(self) < order.index(other)


class Broken(Exception):
    """An invariant does not hold. ``name`` is the invariant, the message says what was seen."""

    def __init__(self, name: str, message: str, grade: Grade = Grade.DATA) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.grade = grade
        self.message = message
