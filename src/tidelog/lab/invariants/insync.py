"""Members of the ISR: a replica that may be elected has every committed record.

``WeakIsr`` and ``StrongIsr`` of the TLA+ specification of Kafka's replication, and its ``LeaderInIsr``.
"""

from __future__ import annotations

from tidelog.core.events import HighWatermarkAdvanced, PartitionStateWritten
from tidelog.core.types import NO_LEADER, BrokerId
from tidelog.lab.invariants.base import Handlers, Invariant
from tidelog.scenario.violations import Grade


class IsrHoldsCommitted(Invariant):
    name = "isr-holds-committed"
    claim = "every member of the ISR, as the leader and as the keeper know it, holds what is committed"
    grade = Grade.STRUCTURE

    def handlers(self) -> Handlers:
        if not self.world.setup.rules.commits_by_isr:
            return {}
        return {HighWatermarkAdvanced: self._advanced, PartitionStateWritten: self._written}

    def _advanced(self, event: HighWatermarkAdvanced) -> None:
        world, tp = self.world, event.tp
        leader = world.processes[event.broker].storage.logs[tp].batches
        state = world.partition_state(tp)
        members = dict.fromkeys(event.isr)
        if state is not None and state.leader_epoch == event.epoch:
            members.update(dict.fromkeys(state.isr))
        for broker in members:
            if broker == event.broker or self._has_moved(event, broker):
                continue
            log = world.processes[broker].storage.logs.get(tp)
            mine = log.batches if log is not None else []
            for offset in range(event.before, event.high_watermark):
                if offset < len(mine) and mine[offset] is leader[offset]:
                    continue
                if offset >= len(mine) or mine[offset] != leader[offset]:
                    held = repr(mine[offset].value) if offset < len(mine) else "nothing"
                    raise self.broken(
                        f"broker {event.broker} commits {leader[offset].value!r} at offset {offset} in epoch "
                        f"{event.epoch}, but in-sync replica {broker} holds {held} there"
                    )

    def _has_moved(self, event: HighWatermarkAdvanced, broker: BrokerId) -> bool:
        """Whether a reassignment has removed the replica, and the leader, deposed by the same move, does not
        know it yet. What the replica had is on those that were in sync with it."""
        if event.tp in self.world.processes[broker].storage.logs:
            return False
        state = self.world.partition_state(event.tp)
        return state is not None and state.leader_epoch > event.epoch and broker not in state.isr

    def _written(self, event: PartitionStateWritten) -> None:
        state = event.state
        if state.leader != NO_LEADER and state.leader not in state.isr:
            raise self.broken(f"broker {state.leader} leads {event.tp} without being in the ISR {state.isr}")
        for broker in state.isr:
            log = self.world.processes[broker].storage.logs.get(event.tp)
            mine = log.batches if log is not None else []
            for offset, (batch, epoch) in enumerate(self.history.of(event.tp)):
                if offset < len(mine) and mine[offset] is batch:
                    continue
                if epoch <= state.leader_epoch and (offset >= len(mine) or mine[offset] != batch):
                    held = repr(mine[offset].value) if offset < len(mine) else "nothing"
                    raise self.broken(
                        f"the ISR is written as {list(state.isr)}, but {broker} holds {held} at offset "
                        f"{offset}, where {batch.value!r} was committed in epoch {epoch}"
                    )
