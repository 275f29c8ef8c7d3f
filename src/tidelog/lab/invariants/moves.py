"""Reassignment: while a partition moves, and afterwards, it has as many good copies as it should."""

from __future__ import annotations

from tidelog.core.events import ReassignmentCompleted, ReplicaDeleted
from tidelog.core.keeper_paths import deletion_path
from tidelog.core.types import TopicPartition
from tidelog.lab.invariants.base import Handlers, Invariant
from tidelog.scenario.violations import Grade


class MovesKeepCopies(Invariant):
    name = "moves-keep-copies"
    claim = (
        "a reassignment ends when every new replica holds what is committed, and deletes no replica that is "
        "in the ISR"
    )
    grade = Grade.STRUCTURE

    def handlers(self) -> Handlers:
        if not self.world.setup.rules.commits_by_isr:
            return {}
        return {ReassignmentCompleted: self._completed, ReplicaDeleted: self._deleted}

    def _completed(self, event: ReassignmentCompleted) -> None:
        for broker in event.replicas:
            if broker not in event.isr:
                raise self.broken(
                    f"the move of {event.tp} to {list(event.replicas)} ends, but {broker} is not in the ISR "
                    f"{list(event.isr)}"
                )
            self._holds_committed(event.tp, broker)

    def _holds_committed(self, tp: TopicPartition, broker: int) -> None:
        log = self.world.processes[broker].storage.logs.get(tp)
        mine = log.batches if log is not None else []
        for offset, (batch, epoch) in enumerate(self.history.of(tp)):
            if offset >= len(mine) or (mine[offset] is not batch and mine[offset] != batch):
                held = repr(mine[offset].value) if offset < len(mine) else "nothing"
                raise self.broken(
                    f"the move of {tp} ends, but {broker} holds {held} at offset {offset}, where "
                    f"{batch.value!r} was committed in epoch {epoch}"
                )

    def _deleted(self, event: ReplicaDeleted) -> None:
        if self.world.quorum.tree.get(deletion_path(event.tp.topic)) is not None:
            return  # the whole topic is deleted
        state = self.world.partition_state(event.tp)
        if state is not None and event.broker in state.isr:
            raise self.broken(
                f"broker {event.broker} deletes its log of {event.tp} and is in the ISR {list(state.isr)}"
            )
