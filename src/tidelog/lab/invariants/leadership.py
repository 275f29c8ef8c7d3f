"""Epochs belong to one: one leader per leader epoch, one controller per controller epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.events import BecameLeader, ControllerElected
from tidelog.core.types import Epoch, TopicPartition
from tidelog.lab.invariants.base import Handlers, Invariant
from tidelog.lab.violations import Grade

if TYPE_CHECKING:
    from tidelog.lab.invariants.history import CommitHistory
    from tidelog.lab.world import World


class OneLeaderPerEpoch(Invariant):
    name = "one-leader-per-epoch"
    claim = "no two brokers lead a partition in the same epoch, nor the cluster in the same controller epoch"
    grade = Grade.STRUCTURE

    def __init__(self, world: World, history: CommitHistory) -> None:
        super().__init__(world, history)
        self._leaders: dict[tuple[TopicPartition | None, Epoch], int] = {}

    def handlers(self) -> Handlers:
        return {BecameLeader: self._leader, ControllerElected: self._controller}

    def _leader(self, event: BecameLeader) -> None:
        self._claim((event.tp, event.epoch), event.broker, f"epoch {event.epoch} of {event.tp}")

    def _controller(self, event: ControllerElected) -> None:
        self._claim(
            (None, event.controller_epoch), event.broker, f"controller epoch {event.controller_epoch}"
        )

    def _claim(self, key: tuple[TopicPartition | None, Epoch], broker: int, what: str) -> None:
        other = self._leaders.setdefault(key, broker)
        if other != broker:
            raise self.broken(f"brokers {other} and {broker} both lead {what}")
