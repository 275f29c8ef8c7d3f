"""The high watermark only rises while one leader leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.events import BecameLeader, HighWatermarkAdvanced
from tidelog.core.types import Epoch, Offset, TopicPartition
from tidelog.lab.invariants.base import Handlers, Invariant
from tidelog.lab.violations import Grade

if TYPE_CHECKING:
    from tidelog.lab.invariants.history import CommitHistory
    from tidelog.lab.world import World


class WatermarkRises(Invariant):
    name = "watermark-rises"
    claim = "within one leadership the high watermark never goes back, and never beyond the log"
    grade = Grade.STRUCTURE

    def __init__(self, world: World, history: CommitHistory) -> None:
        super().__init__(world, history)
        self._highest: dict[tuple[TopicPartition, int, Epoch], Offset] = {}

    def handlers(self) -> Handlers:
        return {HighWatermarkAdvanced: self._advanced, BecameLeader: self._elected}

    def _elected(self, event: BecameLeader) -> None:
        """A leader that reboots may lead the same epoch again, from its checkpointed watermark."""
        self._highest.pop((event.tp, event.broker, event.epoch), None)

    def _advanced(self, event: HighWatermarkAdvanced) -> None:
        key = (event.tp, event.broker, event.epoch)
        if event.before < self._highest.get(key, 0):
            raise self.broken(
                f"on broker {event.broker} it went from {self._highest[key]} back to {event.before} "
                f"in epoch {event.epoch}"
            )
        end = self.world.processes[event.broker].storage.logs[event.tp].end_offset
        if event.high_watermark > end:
            raise self.broken(
                f"broker {event.broker} raised it to {event.high_watermark}, its log ends at {end}"
            )
        self._highest[key] = event.high_watermark
