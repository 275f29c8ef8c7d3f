"""Replicas agree: below their high watermarks at all times, and everywhere once the cluster is quiet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.events import BecameFollower, BecameLeader, HighWatermarkAdvanced, TopicDeleted, Truncated
from tidelog.core.types import Offset, TopicPartition
from tidelog.lab.invariants.base import Handlers, Invariant
from tidelog.lab.world.convergence import is_converged
from tidelog.lab.world.snapshot import take
from tidelog.scenario.snapshot import partition_line
from tidelog.scenario.verdict import diverged
from tidelog.scenario.violations import Grade

if TYPE_CHECKING:
    from tidelog.lab.invariants.committed import CommitHistory
    from tidelog.lab.world.world import World


class ReplicasAgree(Invariant):
    name = "replicas-agree"
    claim = "replicas hold the same records below their high watermarks, and the same logs in the end"

    def __init__(self, world: World, history: CommitHistory) -> None:
        super().__init__(world, history)
        self._checked: dict[tuple[int, TopicPartition], Offset] = {}

    def handlers(self) -> Handlers:
        return {
            HighWatermarkAdvanced: self._advanced,
            Truncated: self._changed,
            BecameFollower: self._changed,
            TopicDeleted: self._deleted,
        }

    def _deleted(self, event: TopicDeleted) -> None:
        self._checked = {key: end for key, end in self._checked.items() if key[1].topic != event.topic}

    def _changed(self, event: Truncated | BecameFollower | BecameLeader) -> None:
        self._checked.pop((event.broker, event.tp), None)

    def _advanced(self, event: HighWatermarkAdvanced) -> None:
        tp = event.tp
        leader = self.world.processes[event.broker].storage.logs[tp].batches
        for process in self.world.processes:
            core = process.core
            replica = core.replicas.get(tp) if core is not None else None
            if replica is None or process.id == event.broker or replica.leader_epoch != event.epoch:
                continue
            key = (process.id, tp)
            end = min(replica.high_watermark, event.high_watermark)
            start = self._checked.get(key, 0)
            if start >= end:
                continue
            mine = process.storage.logs[tp].batches
            for offset in range(start, end):
                if mine[offset] is not leader[offset] and mine[offset] != leader[offset]:
                    raise self.broken(
                        f"offset {offset} is {leader[offset].value!r} on broker {event.broker} and "
                        f"{mine[offset].value!r} on broker {process.id}, both below the high watermark"
                    )
            self._checked[key] = end

    def at_end(self) -> None:
        for partition in take(self.world, inside=False).partitions:
            for finding in diverged(partition):
                held = ", ".join(f"broker {b} has {v!r}" for b, v in finding["replicas"].items())
                raise self.broken(f"offset {finding['offset']} differs for ever: {held}")


class ClusterConverges(Invariant):
    name = "cluster-converges"
    claim = "once faults are healed, every replica is in sync again and knows it"
    grade = Grade.LIVENESS

    def at_end(self) -> None:
        if not is_converged(self.world):
            snapshot = take(self.world)
            states = "; ".join(partition_line(snapshot, partition) for partition in snapshot.partitions)
            raise self.broken(f"the cluster is still not in sync: {states}")
