"""A simulated world as conditions look at it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidelog.core.assignments import TopicNode
from tidelog.core.keeper_paths import CONTROLLER, broker_path
from tidelog.core.replication.replica import Replica
from tidelog.core.types import BrokerId, PartitionState, TopicPartition
from tidelog.faults.places import Channel
from tidelog.lab.world.world import World
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.producer import Producer


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

    def replica(self, broker: int, tp: TopicPartition) -> Replica | None:
        core = self._world.processes[broker].core
        return core.replicas.get(tp) if core is not None else None

    def values(self, broker: int, tp: TopicPartition, end: int) -> Collection[str | None]:
        return [batch.value for batch in self._world.processes[broker].storage.logs[tp].batches[:end]]

    def in_flight(self, channel: Channel) -> bool:
        return channel in self._world.network.active
