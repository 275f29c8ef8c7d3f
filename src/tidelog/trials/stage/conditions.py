"""The conditions of scenarios, asked of a real cluster from outside: ``wait leads 1``, ``wait isr 0,1``.

The keeper's tree is the truth about the partition; roles and watermarks are what brokers themselves say; what
a replica holds is in its files. A condition is looked at again and again until it holds.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.core.types import NO_LEADER, TopicPartition
from tidelog.faults.places import Channel
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.producer import Producer
from tidelog.scenario.grammar import Condition
from tidelog.scenario.setup import Setup
from tidelog.trials.stage.observation import Observation, ReplicaView


class Conditions:
    def __init__(
        self,
        setup: Setup,
        tp: TopicPartition,
        observation: Observation,
        clients: Mapping[str, Producer | Consumer],
        switchboard: Switchboard,
    ) -> None:
        self._setup = setup
        self._tp = tp
        self._observation = observation
        self._clients = clients
        self._switchboard = switchboard

    async def holds(self, condition: Condition) -> bool:
        name, args = condition.name, condition.args
        if name in ("leader", "epoch", "isr"):
            return self._state_is(name, args[0])
        if name == "controller":
            return await self._controller_is(args[0])
        if name in ("registered", "unregistered"):
            return self._observation.is_registered(int(str(args[0]))) == (name == "registered")
        if name == "answered":
            return not any(p.undecided for p in self._clients.values() if isinstance(p, Producer))
        if name == "in-flight":
            assert isinstance(args[0], Channel)
            return self._switchboard.in_flight(args[0]) > 0
        if name == "converged":
            return await self.converged()
        return await self._replica_is(name, int(str(args[0])), args[-1])

    def _state_is(self, name: str, wanted: object) -> bool:
        state = self._observation.partition_state(self._tp)
        if state is None:
            return False
        if name == "leader":
            return state.leader == (NO_LEADER if wanted is None else wanted)
        if name == "epoch":
            return state.leader_epoch == wanted
        assert isinstance(wanted, tuple)
        return sorted(state.isr) == sorted(wanted)

    async def _controller_is(self, wanted: object) -> bool:
        controller = self._observation.controller()
        if controller is None or controller != wanted:
            return False
        view = await self._observation.view(controller)
        return view is not None and view.acts_as_controller

    async def _replica(self, broker: int, tp: TopicPartition) -> ReplicaView | None:
        view = await self._observation.view(broker)
        return view.replicas.get(tp) if view is not None else None

    async def _replica_is(self, name: str, broker: int, wanted: object) -> bool:
        replica = await self._replica(broker, self._tp)
        if replica is None:
            return False
        if name == "leads":
            return replica.leads
        if name == "follows":
            return not replica.leads and replica.leader == wanted
        if name in ("holds", "knows"):
            end = replica["log_end_offset" if name == "holds" else "high_watermark"]
            records = self._observation.records(broker, self._tp)[:end]
            return any(value == wanted for _, _, value in records)
        return replica["log_end_offset" if name == "leo" else "high_watermark"] == wanted

    # ------------------------------------------------------------ has the cluster recovered?

    async def converged(self) -> bool:
        """Every replica in sync to the last record, and aware of it (``lab/world/convergence.py``)."""
        for topic in self._setup.topics:
            if not await self._partition_converged(TopicPartition(topic.name, 0), topic.replicas):
                return False
        return True

    async def _partition_converged(self, tp: TopicPartition, assignment: tuple[int, ...]) -> bool:
        state = self._observation.partition_state(tp)
        if state is None or state.leader == NO_LEADER:
            return False
        if self._setup.rules.commits_by_isr and len(state.isr) != len(assignment):
            return False
        leader = await self._replica(state.leader, tp)
        if leader is None or not leader.leads:
            return False
        for broker in assignment:
            replica = leader if broker == state.leader else await self._replica(broker, tp)
            if replica is None or replica["leader_epoch"] != state.leader_epoch:
                return False
            if replica["log_end_offset"] != leader["log_end_offset"]:
                return False
            if replica["high_watermark"] != leader["log_end_offset"]:
                return False
        return True
