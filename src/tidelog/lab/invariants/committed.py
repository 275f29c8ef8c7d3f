"""Committed is for ever: what a leader exposed below its high watermark is in every later leader.

`CommitHistory` remembers all that was ever committed, by whichever leader; several invariants share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.events import BecameLeader, HighWatermarkAdvanced, TopicDeleted
from tidelog.core.types import LeaderEpoch, TopicPartition
from tidelog.lab.invariants.base import Handlers, Invariant
from tidelog.scenario.clients.events import Acknowledged
from tidelog.storage.memory import MemoryBatch

if TYPE_CHECKING:
    from tidelog.lab.world.world import World


class CommittedSurvives(Invariant):
    name = "committed-survives"
    claim = "a committed record is in the log of every later leader, at the same offset"

    def handlers(self) -> Handlers:
        return {
            HighWatermarkAdvanced: self._advanced,
            BecameLeader: self._elected,
            Acknowledged: self._acknowledged,
        }

    def _advanced(self, event: HighWatermarkAdvanced) -> None:
        commits = self.history.of(event.tp)
        batches = self.world.processes[event.broker].storage.logs[event.tp].batches
        for offset in range(event.before, event.high_watermark):
            batch, (committed, epoch) = batches[offset], commits[offset]
            if committed is not batch and committed != batch:
                raise self.broken(
                    f"broker {event.broker} commits {batch.value!r} at {offset} in epoch {event.epoch}, "
                    f"and {committed.value!r} was committed there in epoch {epoch}"
                )

    def _elected(self, event: BecameLeader) -> None:
        batches = self.world.processes[event.broker].storage.logs[event.tp].batches
        for offset, (batch, epoch) in enumerate(self.history.of(event.tp)):
            if epoch >= event.epoch:
                break  # committed by a later leader than this one, which merely heard late of its election
            if offset < len(batches) and batches[offset] is batch:
                continue
            if offset >= len(batches) or batches[offset] != batch:
                held = repr(batches[offset].value) if offset < len(batches) else "nothing"
                raise self.broken(
                    f"broker {event.broker} leads epoch {event.epoch} with {held} at offset {offset}, "
                    f"where {batch.value!r} was committed in epoch {epoch}"
                )

    def _acknowledged(self, event: Acknowledged) -> None:
        record = event.record
        if record.acks != -1:
            return
        commits = self.history.of(record.tp)
        if record.offset >= len(commits) or commits[record.offset][0].value != record.value:
            raise self.broken(
                f"{record.value!r} was acknowledged to an acks=all producer but never committed"
            )


Commit = tuple[MemoryBatch, LeaderEpoch]
"""A record, and the epoch of the leader that first committed it."""


class CommitHistory:
    __slots__ = ("_commits", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._commits: dict[TopicPartition, list[Commit]] = {}

    def of(self, tp: TopicPartition) -> list[Commit]:
        """By offset. An entry is never replaced, whatever later leaders report."""
        return self._commits.setdefault(tp, [])

    def forget(self, event: TopicDeleted) -> None:
        """A later topic of this name is another one."""
        for tp in [tp for tp in self._commits if tp.topic == event.topic]:
            del self._commits[tp]

    def note(self, event: HighWatermarkAdvanced) -> None:
        commits = self.of(event.tp)
        batches = self._world.processes[event.broker].storage.logs[event.tp].batches
        for offset in range(len(commits), event.high_watermark):
            commits.append((batches[offset], event.epoch))
