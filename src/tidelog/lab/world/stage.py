"""The simulator as a stage: what the commands of a scenario mean for a simulated world."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidelog.core.keeper_port import Delete
from tidelog.core.types import Millis, TopicConfig, TopicPartition
from tidelog.faults.places import Channel, Node
from tidelog.faults.testbed import Links
from tidelog.lab.world.convergence import converge
from tidelog.lab.world.view import WorldView
from tidelog.lab.world.world import World
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.producer import Producer, ProducerConfig
from tidelog.scenario.conditions import CONVERGED, Condition, holds
from tidelog.scenario.head import topic_config
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.stage import Stage
from tidelog.scenario.verbs import ScriptRunner


def script_runner(scenario: Scenario, world: World) -> ScriptRunner:
    """Carries out the steps of a scenario on a world."""
    return ScriptRunner(scenario, SimStage(world, scenario.partition))


class SimStage(Stage):
    def __init__(self, world: World, tp: TopicPartition) -> None:
        """``tp`` is the partition that conditions speak of."""
        self._world = world
        self._tp = tp

    # ------------------------------------------------------------ clients

    @property
    def clients(self) -> Mapping[str, Producer | Consumer]:
        return self._world.clients

    def add_producer(self, name: str, zone: str, config: ProducerConfig) -> Producer:
        return self._world.add_producer(name, zone, config)

    def add_consumer(self, name: str, zone: str) -> Consumer:
        return self._world.add_consumer(name, zone)

    # ------------------------------------------------------------ processes

    def is_up(self, broker: int) -> bool:
        return self._world.processes[broker].core is not None

    def is_paused(self, broker: int) -> bool:
        return broker in self._world.paused

    def start(self, broker: int) -> None:
        self._world.start(broker)

    def kill(self, broker: int) -> None:
        self._world.crash(broker)

    def lose_power(self, broker: int) -> None:
        self._world.crash(broker, power=True)

    def pause(self, broker: int) -> None:
        self._world.pause(broker)

    def resume(self, broker: int) -> None:
        self._world.resume(broker)

    def stop(self, broker: int) -> None:
        self._world.stop(broker)

    def sync_disk(self, broker: int) -> None:
        self._world.sync_disk(broker)

    def keeper_member(self, member: int, *, running: bool) -> None:
        self._world.keeper_member(f"keeper-{member}", running=running)

    def keeper(self, *, running: bool) -> None:
        for member in range(self._world.setup.keepers):
            self.keeper_member(member, running=running)

    # ------------------------------------------------------------ network

    def zones(self) -> list[str]:
        return self._world.zones()

    def nodes_in(self, zone: str) -> list[Node]:
        return self._world.nodes_in(zone)

    def cut(self, links: Links) -> None:
        self._world.cut(list(links))

    def mend(self, links: Links | None) -> None:
        self._world.heal(None if links is None else list(links))

    def reset_connections(self, a: int, b: int) -> None:
        self._world.reset_connections(a, b)

    def delay(self, links: Links, ms: int) -> None:
        self._world.network.delays.update(dict.fromkeys(links, ms))

    def hold(self, channels: Iterable[Channel] | None) -> None:
        if channels is None:
            self._world.network.hold_all = True
        for channel in channels or ():
            self._world.network.hold(channel)

    def release(self, channels: Iterable[Channel] | None) -> None:
        if channels is None:
            self._world.network.release_everything()
        for channel in channels or ():
            self._world.network.release(channel)

    def deliver(self, channel: Channel) -> bool:
        if channel not in self._world.network.active or channel.target in self._world.paused:
            return False
        self._world.deliver(channel)
        return True

    def drop(self, channel: Channel) -> bool:
        if channel not in self._world.network.active:
            return False
        self._world.network.take(channel)
        return True

    # ------------------------------------------------------------ time

    def tick(self) -> bool:
        if self._world.next_timer is None:
            return False
        self._world.tick()
        return True

    def advance(self, duration: Millis) -> None:
        self._world.advance(duration)

    def settle(self) -> None:
        network = self._world.network
        held, network.hold_all = network.hold_all, False
        self._world.settle()
        network.hold_all = held

    def settle_after_step(self) -> None:
        if not self._world.network.hold_all:
            self._world.settle()

    def run_until(self, condition: Callable[[], bool], limit: Millis) -> bool:
        return self._world.run_until(condition, limit)

    def reaches(self, condition: Condition, limit: Millis) -> bool:
        if condition.name == CONVERGED:
            return converge(self._world, limit)
        view = WorldView(self._world)
        return self._world.run_until(lambda: holds(condition, view, self._tp), limit)

    # ------------------------------------------------------------ administration

    def elect_preferred(self) -> bool:
        return self._world.elect_preferred(self._tp)

    def configure_topic(self, topic: str, settings: dict[str, str]) -> None:
        config = self._world.processes[0].topic_configs.get(topic, TopicConfig())
        self._world.configure_topic(topic, topic_config(config, settings))

    def reassign(self, topic: str, brokers: tuple[int, ...] | None) -> bool:
        return self._world.reassign(TopicPartition(topic, 0), brokers)

    def create_topic(self, topic: str, brokers: tuple[int, ...]) -> bool:
        return self._world.create_topic(topic, brokers)

    def delete_topic(self, topic: str) -> bool:
        return self._world.delete_topic(topic)

    def delete_node(self, path: str) -> bool:
        quorum = self._world.quorum
        if quorum.leader is None or quorum.tree.get(path) is None:
            return False
        quorum.administer(Delete(path))
        return True
