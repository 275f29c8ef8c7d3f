"""Waiting until messages on their way have arrived.

The lab knows what is in flight. Here two signs are observed: the network is quiet for a moment, and every
broker that the controller can reach has its newest state. The second sign is needed because the controller
first detects a broker that has returned and then sends it its partitions: the network is quiet in between.

This file also keeps which channels are held, and when a message last passed on each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tidelog.cluster.network.relays.switchboard import Passed, Switchboard
from tidelog.core.types import TopicPartition
from tidelog.faults.places import KEEPER, Channel, Node
from tidelog.process_stage.observation import BrokerView, Observation
from tidelog.process_stage.processes import Processes
from tidelog.process_stage.topology import Topology
from tidelog.scenario.setup import Setup, TopicSetup

QUIET_MS = 12.0
QUIET_SECONDS_MAX = 0.1
"""Traffic that continues longer was not caused by the step."""
NEWS_SECONDS_MAX = 3.0
POLL_SECONDS = 0.005
FETCH_GRACE_SECONDS = 0.2

Views = dict[int, BrokerView | None]


class Settling:
    def __init__(
        self,
        setup: Setup,
        switchboard: Switchboard,
        topology: Topology,
        processes: Processes,
        observation: Observation,
    ) -> None:
        self._setup = setup
        self._switchboard = switchboard
        self._topology = topology
        self._processes = processes
        self._observation = observation
        self._held: set[Channel] = set()
        self._all_held = False
        self._passed: dict[Channel, float] = {}
        switchboard.on_message = self._message_passed

    # ------------------------------------------------------------ single messages

    def hold(self, channel: Channel | None) -> None:
        if channel is None:
            self._all_held = True
        else:
            self._held.add(channel)
        self._switchboard.hold(channel)

    def release(self, channel: Channel | None) -> None:
        if channel is None:
            self._all_held = False
            self._held.clear()
        else:
            self._held.discard(channel)
        self._switchboard.release(channel)

    def _message_passed(self, message: Passed) -> None:
        """Called by the switchboard, in its own thread."""
        self._passed[Channel(message.kind, message.source, message.target)] = message.time

    async def next_fetch(self, channel: Channel, wait_s: float) -> None:
        """Wait until a fetch has passed, if the follower fetches. A leader delays one by up to ``wait_s``."""
        before = self._passed.get(channel)
        if before is None or time.time() - before > 2 * wait_s + FETCH_GRACE_SECONDS:
            return
        await _until(lambda: self._passed.get(channel) != before, 2 * wait_s + FETCH_GRACE_SECONDS)

    # ------------------------------------------------------------ everything

    async def settle(self) -> Views:
        """The answers of brokers when messages have arrived, or after a time limit."""
        await _until(self._is_quiet, QUIET_SECONDS_MAX)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + NEWS_SECONDS_MAX
        while True:
            views = await self._observation.views(beliefs=True)
            if self._heard_everything(views) or loop.time() > deadline:
                return views
            await asyncio.sleep(POLL_SECONDS)

    def _is_quiet(self) -> bool:
        nodes: list[Node] = [*range(self._setup.brokers)]
        return all(self._switchboard.quiet(node, ms=QUIET_MS) for node in nodes)

    def _heard_everything(self, views: Views) -> bool:
        """Every broker that the controller can reach knows the leaders."""
        controller = self._observation.controller()
        if controller is None or self._all_held or not self._is_at_work(controller):
            return True
        if Channel("keeper-reply", KEEPER, controller) in self._held:
            return True
        view = views[controller]
        if view is None or not view.acts_as_controller:
            return True
        return all(
            self._heard(broker, views[broker], topic.name, self._assigned(topic))
            for broker in range(self._setup.brokers)
            if self._is_reachable(broker, controller)
            for topic in self._setup.topics
        )

    def _assigned(self, topic: TopicSetup) -> tuple[int, ...]:
        node = self._observation.topic_node(topic.name)
        return topic.replicas if node is None else node.partitions[0]

    def _is_at_work(self, broker: int) -> bool:
        running = self._processes.brokers[broker]
        return running.is_up and not running.paused and self._topology.reaches_keeper(broker)

    def _is_reachable(self, broker: int, controller: int) -> bool:
        if not self._is_at_work(broker) or not self._observation.is_registered(broker):
            return False
        ways = (Channel("control", controller, broker), Channel("control-reply", broker, controller))
        return self._topology.linked(broker, controller) and not self._held.intersection(ways)

    def _heard(self, broker: int, view: BrokerView | None, topic: str, replicas: tuple[int, ...]) -> bool:
        tp = TopicPartition(topic, 0)
        state = self._observation.partition_state(tp)
        if view is None or state is None:
            return True
        known = view.believes.get(tp)
        if known is None or known.leader_epoch < state.leader_epoch:
            return False
        if broker not in replicas:
            return True
        replica = view.replicas.get(tp)
        return replica is not None and (state.leader < 0 or replica.leader_epoch >= state.leader_epoch)


async def _until(check: Callable[[], bool], seconds: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not check() and loop.time() < deadline:
        await asyncio.sleep(POLL_SECONDS)
