"""The conditions of scenarios (``wait leads 1``, ``wait isr 0,1``) on a real cluster.

The stage asks the brokers that a condition is about, and tests it on their answers with the lab's own
functions. It repeats that until the condition holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.core.assignments import TopicNode
from tidelog.core.types import PartitionState, TopicPartition
from tidelog.faults.places import Channel
from tidelog.process_stage.observation import BrokerView, Observation, ObservedReplica
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.producer import Producer
from tidelog.scenario.conditions import CONVERGED, OF_REPLICA, Condition, converged, holds
from tidelog.scenario.setup import Setup


class Conditions:
    def __init__(
        self,
        setup: Setup,
        tp: TopicPartition,
        observation: Observation,
        clients: Mapping[str, Producer | Consumer],
        switchboard: Switchboard,
    ) -> None:
        self.clients = clients
        self._setup = setup
        self._tp = tp
        self._observation = observation
        self._switchboard = switchboard
        self._asked: dict[int, BrokerView | None] = {}
        """Answers of the brokers for this condition."""

    async def holds(self, condition: Condition) -> bool:
        self._asked = {broker: await self._observation.view(broker) for broker in self._involved(condition)}
        if condition.name == CONVERGED:
            return converged(self, self._setup)
        return holds(condition, self, self._tp)

    def _involved(self, condition: Condition) -> Iterable[int]:
        if condition.name in OF_REPLICA:
            return (int(str(condition.args[0])),)
        if condition.name == CONVERGED:
            return range(self._setup.brokers)
        controller = self._observation.controller()
        return (controller,) if condition.name == "controller" and controller is not None else ()

    # ------------------------------------------------------------ ClusterView

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        return self._observation.partition_state(tp)

    def topic_node(self, topic: str) -> TopicNode | None:
        return self._observation.topic_node(topic)

    def acting_controller(self) -> int | None:
        controller = self._observation.controller()
        view = self._asked.get(controller) if controller is not None else None
        return controller if view is not None and view.acts_as_controller else None

    def is_registered(self, broker: int) -> bool:
        return self._observation.is_registered(broker)

    def replica(self, broker: int, tp: TopicPartition) -> ObservedReplica | None:
        view = self._asked.get(broker)
        return view.replicas.get(tp) if view is not None else None

    def values(self, broker: int, tp: TopicPartition, end: int) -> Collection[str | None]:
        return [value for _, _, value in self._observation.records(broker, tp)[:end]]

    def in_flight(self, channel: Channel) -> bool:
        return self._switchboard.in_flight(channel) > 0
