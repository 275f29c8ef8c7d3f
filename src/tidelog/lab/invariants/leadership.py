"""One leader per leader epoch, one controller per controller epoch; and while one leader leads, the high
watermark only rises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.events import BecameLeader, ControllerElected, HighWatermarkAdvanced, TopicDeleted
from tidelog.core.types import ControllerEpoch, LeaderEpoch, Offset, TopicPartition
from tidelog.lab.invariants.base import Handlers, Invariant
from tidelog.scenario.violations import Grade

if TYPE_CHECKING:
    from tidelog.lab.invariants.committed import CommitHistory
    from tidelog.lab.world.world import World


_Office = tuple[TopicPartition, LeaderEpoch] | tuple[None, ControllerEpoch]
"""What one broker alone may hold: a partition or, for None, the cluster, in an epoch."""


class OneLeaderPerEpoch(Invariant):
    name = "one-leader-per-epoch"
    claim = "no two brokers lead a partition in the same epoch, nor the cluster in the same controller epoch"
    grade = Grade.STRUCTURE

    def __init__(self, world: World, history: CommitHistory) -> None:
        super().__init__(world, history)
        self._leaders: dict[_Office, int] = {}

    def handlers(self) -> Handlers:
        return {
            BecameLeader: self._leader,
            ControllerElected: self._controller,
            TopicDeleted: self._deleted,
        }

    def _deleted(self, event: TopicDeleted) -> None:
        """The epochs of a later topic begin again."""
        for key in [key for key in self._leaders if key[0] is not None and key[0].topic == event.topic]:
            del self._leaders[key]

    def _leader(self, event: BecameLeader) -> None:
        self._claim((event.tp, event.epoch), event.broker, f"epoch {event.epoch} of {event.tp}")

    def _controller(self, event: ControllerElected) -> None:
        self._claim(
            (None, event.controller_epoch), event.broker, f"controller epoch {event.controller_epoch}"
        )

    def _claim(self, key: _Office, broker: int, what: str) -> None:
        other = self._leaders.setdefault(key, broker)
        if other != broker:
            raise self.broken(f"brokers {other} and {broker} both lead {what}")


class WatermarkRises(Invariant):
    name = "watermark-rises"
    claim = "within one leadership the high watermark never goes back, and never beyond the log"
    grade = Grade.STRUCTURE

    def __init__(self, world: World, history: CommitHistory) -> None:
        super().__init__(world, history)
        self._highest: dict[tuple[TopicPartition, int, LeaderEpoch], Offset] = {}

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
