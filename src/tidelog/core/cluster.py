"""What the controller knows of the cluster: live brokers, assignments, partition states, machine states."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tidelog.core.messages import PartitionAssignment
from tidelog.core.types import NO_LEADER, BrokerId, PartitionState, TopicPartition


class PartitionPhase(Enum):
    """NonExistent is not being here at all."""

    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"


class ReplicaPhase(Enum):
    """A replica that is not here is new; the phases of topic deletion come with topic deletion."""

    ONLINE = "online"
    OFFLINE = "offline"


@dataclass(slots=True)
class Cluster:
    live: dict[BrokerId, int] = field(default_factory=dict)
    """Registered brokers with their broker epochs."""
    leaving: set[BrokerId] = field(default_factory=set)
    """Brokers in controlled shutdown: alive, but not to be elected."""
    assignments: dict[TopicPartition, tuple[BrokerId, ...]] = field(default_factory=dict)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    partitions: dict[TopicPartition, PartitionPhase] = field(default_factory=dict)
    replicas: dict[tuple[TopicPartition, BrokerId], ReplicaPhase] = field(default_factory=dict)

    def electable(self) -> tuple[BrokerId, ...]:
        return tuple(broker for broker in self.live if broker not in self.leaving)

    def partition(self, tp: TopicPartition) -> PartitionAssignment:
        return PartitionAssignment(tp, self.assignments[tp], self.states[tp])

    def known_partitions(self) -> tuple[PartitionAssignment, ...]:
        return tuple(self.partition(tp) for tp in self.states)

    def replicas_on(self, broker: BrokerId) -> list[TopicPartition]:
        return [tp for tp, replicas in self.assignments.items() if broker in replicas]

    def has_live_leader(self, tp: TopicPartition) -> bool:
        leader = self.states[tp].leader
        return leader != NO_LEADER and leader in self.live
