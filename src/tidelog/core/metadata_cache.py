"""A broker's metadata: the live brokers, their endpoints, and the leader of each partition.

A cache of the controller's UpdateMetadata requests. It may be stale; clients can handle that, because a
broker that no longer leads refuses their requests. The replication rules use it only to check whether the
leader of a follower is alive.
"""

from __future__ import annotations

from tidelog.core.messages import PartitionAssignment, UpdateMetadataRequest
from tidelog.core.types import (
    LEADER_DURING_DELETION,
    NO_LEADER,
    NO_TOPIC_ID,
    BrokerEndpoint,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    PartitionState,
    TopicId,
    TopicPartition,
)


class MetadataCache:
    __slots__ = (
        "_isr_without_leader",
        "_origin",
        "endpoints",
        "live_brokers",
        "topic_ids",
        "topic_names",
        "topics",
    )

    def __init__(self, *, isr_without_leader: bool = True) -> None:
        self._isr_without_leader = isr_without_leader
        self.live_brokers: dict[BrokerId, BrokerEpoch] = {}
        self.endpoints: dict[BrokerId, BrokerEndpoint] = {}
        self.topics: dict[str, dict[int, PartitionAssignment]] = {}
        self.topic_ids: dict[str, TopicId] = {}
        self.topic_names: dict[TopicId, str] = {}
        self._origin: tuple[ControllerEpoch, BrokerEpoch] | None = None

    def is_complete(self, request: UpdateMetadataRequest) -> bool:
        """Whether this is the full metadata: the first request of a controller after a registration lists
        everything. Topics that are missing in it do not exist."""
        return (request.controller_epoch, request.broker_epoch) != self._origin

    def update(self, request: UpdateMetadataRequest) -> list[str]:
        """Apply an update. Returns the deleted topics."""
        self.live_brokers = request.live_brokers
        self.endpoints = request.endpoints
        before: dict[str, dict[int, PartitionAssignment]] = {}
        if self.is_complete(request):
            self._origin = (request.controller_epoch, request.broker_epoch)
            before, self.topics = self.topics, {}
            self.topic_ids, self.topic_names = {}, {}
        deleted: dict[str, None] = dict.fromkeys(before)
        for assignment in request.partitions:
            topic, partition = assignment.tp
            if assignment.state.leader != LEADER_DURING_DELETION:
                self.topics.setdefault(topic, {})[partition] = assignment
                if assignment.topic_id and assignment.topic_id not in self.topic_names:
                    self._identify(topic, assignment.topic_id)
            elif topic in self.topics:
                self.topics[topic].pop(partition, None)
                if not self.topics[topic]:
                    del self.topics[topic]
                    self._identify(topic, NO_TOPIC_ID)
                    deleted[topic] = None
        return [topic for topic in deleted if topic not in self.topics]

    def _identify(self, topic: str, topic_id: TopicId) -> None:
        self.topic_names.pop(self.topic_ids.pop(topic, NO_TOPIC_ID), None)
        if topic_id:
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic

    def topic_id(self, topic: str) -> TopicId:
        return self.topic_ids.get(topic, NO_TOPIC_ID)

    def __contains__(self, tp: TopicPartition) -> bool:
        return self.get(tp) is not None

    def get(self, tp: TopicPartition) -> PartitionAssignment | None:
        return self.topics.get(tp.topic, {}).get(tp.partition)

    def shown(self, tp: TopicPartition) -> PartitionState | None:
        """A partition's state as Metadata shows it to clients."""
        partition = self.get(tp)
        return None if partition is None else self._as_told(partition.state)

    def states(self) -> dict[TopicPartition, PartitionState]:
        """Every partition's state for clients: a dead leader is reported as no leader. Clients then ask
        again, and do not return to it in an epoch that is over when it is back."""
        return {
            partition.tp: self._as_told(partition.state)
            for topic in self.topics.values()
            for partition in topic.values()
        }

    def _as_told(self, state: PartitionState) -> PartitionState:
        if state.leader in self.live_brokers:
            return state
        isr = state.isr if self._isr_without_leader else ()
        return PartitionState(NO_LEADER, state.leader_epoch, isr, state.controller_epoch, state.version)
