"""The phases of partitions and replicas in the controller's two state machines, and their changes as events.

Many partitions that change together are one event: the death of a broker concerns thousands. The phases that
a new controller finds are loaded without an event.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.core import events
from tidelog.core.context import Context
from tidelog.core.controller.cluster_state import ClusterState
from tidelog.core.machine_phases import PartitionPhase, ReplicaPhase
from tidelog.core.types import BrokerId, TopicPartition


class Phases:
    __slots__ = ("_cluster", "_ctx")

    def __init__(self, ctx: Context, cluster: ClusterState) -> None:
        self._ctx = ctx
        self._cluster = cluster

    def load(self) -> None:
        """As in Kafka, a new controller takes partitions with a state for online, and replicas of dead
        brokers for ineligible for deletion, until its machines have run."""
        cluster = self._cluster
        for tp, assignment in cluster.assignments.items():
            cluster.partitions[tp] = PartitionPhase.ONLINE if tp in cluster.states else PartitionPhase.NEW
            for broker in assignment:
                live = broker in cluster.live
                cluster.replicas[tp, broker] = (
                    ReplicaPhase.ONLINE if live else ReplicaPhase.DELETION_INELIGIBLE
                )

    def partitions_become(self, tps: Iterable[TopicPartition], phase: PartitionPhase) -> None:
        known = self._cluster.partitions
        changed: dict[PartitionPhase, list[TopicPartition]] = {}
        for tp in tps:
            before = known.get(tp, PartitionPhase.NON_EXISTENT)
            known[tp] = phase  # the order of the others stays: partitions are elected in it
            if phase is PartitionPhase.NON_EXISTENT:
                del known[tp]
            if before is not phase:
                changed.setdefault(before, []).append(tp)
        for before, some in changed.items():
            self._ctx.emit(events.PartitionPhaseChanged(self._ctx.broker, tuple(some), before, phase))

    def replicas_become(
        self, replicas: Iterable[tuple[TopicPartition, BrokerId]], phase: ReplicaPhase
    ) -> None:
        known = self._cluster.replicas
        changed: dict[tuple[BrokerId, ReplicaPhase], list[TopicPartition]] = {}
        for replica in replicas:
            before = known.get(replica, ReplicaPhase.NON_EXISTENT)
            known[replica] = phase
            if phase is ReplicaPhase.NON_EXISTENT:
                del known[replica]
            if before is not phase:
                changed.setdefault((replica[1], before), []).append(replica[0])
        for (broker, before), some in changed.items():
            self._ctx.emit(events.ReplicaPhaseChanged(self._ctx.broker, broker, tuple(some), before, phase))
