"""What an invariant is: a small observer that may say "this must never have happened"."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from tidelog.lab.world import World

Handlers = dict[type, Callable[[Any], None]]


class Broken(Exception):
    """An invariant does not hold. ``name`` is the invariant, the message says what was seen."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


class Invariant:
    """Checked at every step, through the events of the step; and once more when everything is quiet."""

    name: ClassVar[str]
    claim: ClassVar[str]

    def __init__(self, world: World) -> None:
        self.world = world

    def handlers(self) -> Handlers:
        """Which events this invariant wants to see."""
        return {}

    def at_end(self) -> None:
        """Called once, when all faults are healed and the cluster has had time to converge."""

    def broken(self, message: str) -> Broken:
        return Broken(self.name, message)
