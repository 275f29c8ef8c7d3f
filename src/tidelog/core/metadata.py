"""What a broker was told of the cluster: live brokers, where they are, and who leads each partition.

A cache of the controller's UpdateMetadata requests. It may be stale; clients live with that, because a
broker that no longer leads says so. The rules use it for one question only: is the leader we are told to
follow alive?
"""

from __future__ import annotations

from tidelog.core.messages import PartitionAssignment, UpdateMetadataRequest
from tidelog.core.types import (
    LEADER_DURING_DELETION,
    BrokerEndpoint,
    BrokerId,
    PartitionState,
    TopicPartition,
)


class MetadataCache:
    __slots__ = ("endpoints", "live_brokers", "topics")

    def __init__(self) -> None:
        self.live_brokers: dict[BrokerId, int] = {}
        self.endpoints: dict[BrokerId, BrokerEndpoint] = {}
        self.topics: dict[str, dict[int, PartitionAssignment]] = {}

    def update(self, request: UpdateMetadataRequest) -> None:
        self.live_brokers = request.live_brokers
        self.endpoints = request.endpoints
        for assignment in request.partitions:
            topic, partition = assignment.tp
            if assignment.state.leader != LEADER_DURING_DELETION:
                self.topics.setdefault(topic, {})[partition] = assignment
            elif topic in self.topics:
                self.topics[topic].pop(partition, None)
                if not self.topics[topic]:
                    del self.topics[topic]

    def __contains__(self, tp: TopicPartition) -> bool:
        return self.get(tp) is not None

    def get(self, tp: TopicPartition) -> PartitionAssignment | None:
        return self.topics.get(tp.topic, {}).get(tp.partition)

    def states(self) -> dict[TopicPartition, PartitionState]:
        """Every partition's state, as clients are told it."""
        return {
            partition.tp: partition.state for topic in self.topics.values() for partition in topic.values()
        }
