"""Invariants of replication, each a small checker of its own, run at every step of every schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.core.events import HighWatermarkAdvanced, TopicDeleted
from tidelog.lab.invariants.agreement import ClusterConverges, ReplicasAgree
from tidelog.lab.invariants.base import Invariant
from tidelog.lab.invariants.committed import CommitHistory, CommittedSurvives
from tidelog.lab.invariants.insync import IsrHoldsCommitted
from tidelog.lab.invariants.leadership import OneLeaderPerEpoch, WatermarkRises
from tidelog.lab.invariants.moves import MovesKeepCopies
from tidelog.lab.invariants.reads import PromisesKept, ReadsAreStable
from tidelog.lab.world.world import World
from tidelog.scenario.violations import Broken, Grade

INVARIANTS: tuple[type[Invariant], ...] = (
    CommittedSurvives,
    IsrHoldsCommitted,
    ReplicasAgree,
    WatermarkRises,
    OneLeaderPerEpoch,
    MovesKeepCopies,
    ReadsAreStable,
    PromisesKept,
    ClusterConverges,
)


class Watch:
    """All invariants of one world, fed by its events.

    A broken data invariant is raised at once. A broken rule of structure is kept: the run goes on, and only
    if nothing worse comes of it is it raised at the end.
    """

    __slots__ = ("_handlers", "_invariants", "_kept", "_kinds")

    def __init__(self, kinds: tuple[type[Invariant], ...] = INVARIANTS) -> None:
        self._kinds = kinds
        self._invariants: list[Invariant] = []
        self._handlers: dict[type, list[Callable[[Any], None]]] = {}
        self._kept: Broken | None = None

    def attach(self, world: World) -> None:
        """Start watching: from here on, every event of the world must be passed to ``__call__``."""
        history = CommitHistory(world)
        self._handlers[HighWatermarkAdvanced] = [history.note]  # before an invariant asks what is committed
        self._handlers[TopicDeleted] = [history.forget]
        for kind in self._kinds:
            invariant = kind(world, history)
            self._invariants.append(invariant)
            for event_type, handler in invariant.handlers().items():
                self._handlers.setdefault(event_type, []).append(handler)

    def __call__(self, event: object) -> None:
        for handler in self._handlers.get(type(event), ()):
            try:
                handler(event)
            except Broken as failure:
                if failure.grade is Grade.DATA:
                    raise
                self._kept = self._kept or failure

    @property
    def kept(self) -> Broken | None:
        """The first broken rule of structure."""
        return self._kept

    def at_end(self) -> None:
        """Raise the worst of what does not hold."""
        failures = self.failures_at_end()
        for failure in failures:
            if failure.grade is Grade.DATA:
                raise failure
        if self._kept is not None:
            raise self._kept
        if failures:
            raise failures[0]

    def failures_at_end(self) -> list[Broken]:
        """All claims about the end that do not hold."""
        found = []
        for invariant in self._invariants:
            try:
                invariant.at_end()
            except Broken as failure:
                found.append(failure)
        return found


__all__ = ["INVARIANTS", "Broken", "Grade", "Invariant", "Watch"]
