"""Committed is for ever: what a leader exposed below its high watermark is in every later leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.events import BecameLeader, HighWatermarkAdvanced
from tidelog.core.types import Epoch, TopicPartition
from tidelog.lab.clients import Acknowledged
from tidelog.lab.invariants.base import Handlers, Invariant
from tidelog.storage.memory_log import MemoryBatch

if TYPE_CHECKING:
    from tidelog.lab.world import World


class CommittedSurvives(Invariant):
    name = "committed-survives"
    claim = "a committed record is in the log of every later leader, at the same offset"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.committed: dict[TopicPartition, list[tuple[MemoryBatch, Epoch]]] = {}
        """By offset: the record, and the epoch of the leader that committed it."""

    def handlers(self) -> Handlers:
        return {
            HighWatermarkAdvanced: self._advanced,
            BecameLeader: self._elected,
            Acknowledged: self._acknowledged,
        }

    def _advanced(self, event: HighWatermarkAdvanced) -> None:
        committed = self.committed.setdefault(event.tp, [])
        batches = self.world.processes[event.broker].storage.logs[event.tp].batches
        known = len(committed)
        for offset in range(min(event.before, known), event.high_watermark):
            batch = batches[offset]
            if offset >= known:
                committed.append((batch, event.epoch))
            elif committed[offset][0] is not batch and committed[offset][0] != batch:
                raise self.broken(
                    f"broker {event.broker} commits {batch.value!r} at {offset} in epoch {event.epoch}, "
                    f"and {committed[offset][0].value!r} was committed there in epoch {committed[offset][1]}"
                )

    def _elected(self, event: BecameLeader) -> None:
        batches = self.world.processes[event.broker].storage.logs[event.tp].batches
        for offset, (batch, epoch) in enumerate(self.committed.get(event.tp, ())):
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
        committed = self.committed.get(record.tp, ())
        if record.offset >= len(committed) or committed[record.offset][0].value != record.value:
            raise self.broken(
                f"{record.value!r} was acknowledged to an acks=all producer but never committed"
            )
