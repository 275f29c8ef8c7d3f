"""A simulated world as conditions look at it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidelog.core.assignments import TopicNode
from tidelog.core.keeper_paths import CONTROLLER, broker_path
from tidelog.core.replication.follower import FollowerRole
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.replication.replica import Replica
from tidelog.core.types import NO_LEADER, BrokerId, PartitionState, TopicPartition
from tidelog.faults.places import Channel
from tidelog.lab.world.world import World
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.producer import Producer


class SimReplica:
    __slots__ = ("_replica",)

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    @property
    def leads(self) -> bool:
        return isinstance(self._replica.role, LeaderRole)

    @property
    def leader(self) -> int:
        role = self._replica.role
        return role.leader if isinstance(role, FollowerRole) else NO_LEADER

    @property
    def leader_epoch(self) -> int:
        return self._replica.leader_epoch

    @property
    def log_end_offset(self) -> int:
        return self._replica.log.end_offset

    @property
    def high_watermark(self) -> int:
        return self._replica.high_watermark


class WorldView:
    __slots__ = ("_world",)

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def clients(self) -> Mapping[str, Producer | Consumer]:
        return self._world.clients

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        return self._world.partition_state(tp)

    def topic_node(self, topic: str) -> TopicNode | None:
        return self._world.topic_node(topic)

    def acting_controller(self) -> int | None:
        node = self._world.quorum.tree.get(CONTROLLER)
        core = self._world.processes[node.value].core if node is not None else None
        acts = core is not None and core.controller is not None and core.controller.active
        return node.value if node is not None and acts else None

    def is_registered(self, broker: int) -> bool:
        return self._world.quorum.tree.get(broker_path(BrokerId(broker))) is not None

    def replica(self, broker: int, tp: TopicPartition) -> SimReplica | None:
        core = self._world.processes[broker].core
        replica = core.replicas.get(tp) if core is not None else None
        return None if replica is None else SimReplica(replica)

    def values(self, broker: int, tp: TopicPartition, end: int) -> Collection[str | None]:
        return [batch.value for batch in self._world.processes[broker].storage.logs[tp].batches[:end]]

    def in_flight(self, channel: Channel) -> bool:
        return channel in self._world.network.active
