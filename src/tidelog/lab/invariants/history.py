"""What has ever been committed, by whichever leader: the memory that several invariants share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.events import HighWatermarkAdvanced
from tidelog.core.types import Epoch, TopicPartition
from tidelog.storage.memory import MemoryBatch

if TYPE_CHECKING:
    from tidelog.lab.world import World

Commit = tuple[MemoryBatch, Epoch]
"""A record, and the epoch of the leader that first committed it."""


class CommitHistory:
    __slots__ = ("_commits", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._commits: dict[TopicPartition, list[Commit]] = {}

    def of(self, tp: TopicPartition) -> list[Commit]:
        """By offset. What stands here once is never replaced, whatever later leaders say."""
        return self._commits.setdefault(tp, [])

    def note(self, event: HighWatermarkAdvanced) -> None:
        commits = self.of(event.tp)
        batches = self._world.processes[event.broker].storage.logs[event.tp].batches
        for offset in range(len(commits), event.high_watermark):
            commits.append((batches[offset], event.epoch))
