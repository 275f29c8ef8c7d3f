"""The controller's view of the cluster: live brokers, assignments, partition states, machine states.

A topic that is being deleted is only in ``deleting``. Hence elections, ISR changes and returning brokers
cannot bring it back: for them it does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.core.assignments import NOT_MOVING, Assignment, Reassignment, TopicNode
from tidelog.core.machine_phases import PartitionPhase, ReplicaPhase
from tidelog.core.messages import PartitionAssignment
from tidelog.core.types import (
    FIRST_EPOCH,
    LEADER_DURING_DELETION,
    NO_LEADER,
    NO_TOPIC_ID,
    BrokerId,
    ControllerEpoch,
    PartitionState,
    TopicId,
    TopicPartition,
)


@dataclass(slots=True)
class ClusterState:
    live: dict[BrokerId, int] = field(default_factory=dict)
    """Registered brokers with their broker epochs."""
    leaving: set[BrokerId] = field(default_factory=set)
    """Brokers in controlled shutdown: alive, but not to be elected."""
    topics: dict[str, list[TopicPartition]] = field(default_factory=dict)
    topic_ids: dict[str, TopicId] = field(default_factory=dict)
    topic_ids_given: int = 0
    """How many ids this controller has made."""
    assignments: dict[TopicPartition, tuple[BrokerId, ...]] = field(default_factory=dict)
    moves: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    """The partitions that are being reassigned."""
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    partitions: dict[TopicPartition, PartitionPhase] = field(default_factory=dict)
    replicas: dict[tuple[TopicPartition, BrokerId], ReplicaPhase] = field(default_factory=dict)
    failed: dict[tuple[TopicPartition, BrokerId], None] = field(default_factory=dict)
    """Replicas of live brokers that cannot use their logs, in the order of the reports."""
    deleting: dict[str, Assignment] = field(default_factory=dict)

    # ------------------------------------------------------------ topics

    def add_partitions(self, topic: str, node: TopicNode) -> list[TopicPartition]:
        """Add a topic's assignment. Returns the new partitions; known ones stay as they are."""
        known = self.topics.setdefault(topic, [])
        if node.topic_id:
            self.topic_ids[topic] = node.topic_id
        added = []
        for partition, replicas in sorted(node.partitions.items()):
            tp = TopicPartition(topic, partition)
            if tp not in self.assignments:
                self.assign(tp, replicas, node.moves.get(partition, NOT_MOVING))
                added.append(tp)
        known.extend(added)
        return added

    def assign(self, tp: TopicPartition, replicas: tuple[BrokerId, ...], move: Reassignment) -> None:
        """The replicas of a partition, and whether they are changing."""
        self.assignments[tp] = replicas
        self.moves.pop(tp, None)
        if move:
            self.moves[tp] = move

    def remove_topic(self, topic: str) -> list[PartitionAssignment]:
        """Remove a topic. Returns its partitions with their states, without a leader."""
        removed = []
        topic_id = self.topic_ids.pop(topic, NO_TOPIC_ID)
        for tp in self.topics.pop(topic, ()):
            replicas = self.assignments.pop(tp)
            self.moves.pop(tp, None)
            state = self.states.pop(tp, None) or PartitionState(
                NO_LEADER, FIRST_EPOCH, replicas, ControllerEpoch(0)
            )
            for broker in replicas:
                self.failed.pop((tp, broker), None)
            removed.append(PartitionAssignment(tp=tp, replicas=replicas, state=state, topic_id=topic_id))
        return removed

    # ------------------------------------------------------------ questions

    def electable(self) -> tuple[BrokerId, ...]:
        return tuple(broker for broker in self.live if broker not in self.leaving)

    def electable_for(self, tp: TopicPartition) -> tuple[BrokerId, ...]:
        return tuple(broker for broker in self.electable() if (tp, broker) not in self.failed)

    def serves(self, tp: TopicPartition, broker: BrokerId) -> bool:
        """Whether a broker is alive and can use its log of the partition, as far as known."""
        return broker in self.live and (tp, broker) not in self.failed

    def partition(self, tp: TopicPartition) -> PartitionAssignment:
        replicas = self.assignments[tp]
        offline = tuple(b for b in replicas if (tp, b) in self.failed) if self.failed else ()
        move = self.moves.get(tp, NOT_MOVING) if self.moves else NOT_MOVING
        return PartitionAssignment(
            tp=tp,
            replicas=replicas,
            state=self.states[tp],
            offline=offline,
            move=move,
            topic_id=self.topic_ids.get(tp.topic, NO_TOPIC_ID),
        )

    def known_partitions(self) -> tuple[PartitionAssignment, ...]:
        """All partitions, for a broker without metadata; those being deleted are marked as such."""
        known = [self.partition(tp) for tp in self.states]
        for topic, assignment in self.deleting.items():
            for partition, replicas in assignment.items():
                state = PartitionState(LEADER_DURING_DELETION, FIRST_EPOCH, (), ControllerEpoch(0))
                known.append(
                    PartitionAssignment(tp=TopicPartition(topic, partition), replicas=replicas, state=state)
                )
        return tuple(known)

    def replicas_on(self, broker: BrokerId) -> list[TopicPartition]:
        return [tp for tp, replicas in self.assignments.items() if broker in replicas]

    def has_live_leader(self, tp: TopicPartition) -> bool:
        leader = self.states[tp].leader
        return leader != NO_LEADER and self.serves(tp, leader)
