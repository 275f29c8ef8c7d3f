"""Carrying out the steps of a scenario on a world.

Between steps the world settles (everything in flight arrives) unless the scenario holds all messages; so a
hand-written scenario reads as a story, and a schedule found by search is played message by message. A step
that finds nothing to do says so and does no harm: that is what lets a schedule be shrunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidelog.core.follower import FollowerRole
from tidelog.core.leader import LeaderRole
from tidelog.core.paths import CONTROLLER, broker_path
from tidelog.core.replica import Replica
from tidelog.core.types import NO_LEADER, BrokerId, TopicConfig
from tidelog.lab.clients import Consumer, Producer, Sent
from tidelog.lab.convergence import converge
from tidelog.lab.grammar import Condition, Duration, Places, Step
from tidelog.lab.network import Channel, Node
from tidelog.lab.scenario import Scenario
from tidelog.lab.world import World

PATIENCE_MS = 120_000
"""How long ``wait`` and ``produce`` wait when the scenario does not say."""


class Actions:
    def __init__(self, scenario: Scenario, world: World) -> None:
        self._world = world
        self._tp = scenario.partition
        for client in scenario.clients:
            if client.producer is None:
                world.add_consumer(client.name, client.zone)
            else:
                world.add_producer(client.name, client.zone, client.producer)
        self._verbs: dict[str, Callable[..., str]] = {
            "produce": self._produce,
            "send": self._send,
            "read": self._read,
            "poll": self._poll,
            "crash": self._each(self._crash),
            "power-off": self._power_off,
            "restart": self._each(self._restart),
            "pause": self._each(self._pause),
            "resume": self._each(self._resume),
            "stop": self._stop,
            "sync": self._each(self._sync),
            "cut": self._cut,
            "isolate": self._isolate,
            "heal": self._heal,
            "reset": self._reset,
            "delay": self._delay,
            "keeper-stop": lambda n: self._keeper(n, running=False),
            "keeper-start": lambda n: self._keeper(n, running=True),
            "elect-preferred": self._elect_preferred,
            "configure": self._configure,
            "hold": self._hold,
            "release": self._release,
            "deliver": self._deliver,
            "drop": self._drop,
            "tick": self._tick,
            "advance": self._advance,
            "settle": self._settle,
            "wait": self._wait,
        }

    def perform(self, step: Step) -> str:
        """Carry out one step. The answer is a remark for the reader, empty if all went as told."""
        remark = self._verbs[step.verb](*step.args)
        if not self._world.network.hold_all:
            self._world.settle()
        return remark

    # ------------------------------------------------------------ clients

    def _producer(self, name: str) -> Producer:
        client = self._world.clients[name]
        assert isinstance(client, Producer)
        return client

    def _send(self, name: str, *values: str) -> str:
        for value in values:
            self._producer(name).send(self._tp, value)
        return ""

    def _produce(self, name: str, *values: str) -> str:
        for value in values:
            record = self._producer(name).send(self._tp, value)
            self._world.run_until(lambda record=record: _answered(record), PATIENCE_MS)  # type: ignore[misc]
        return ""

    def _consumer(self, name: str) -> Consumer:
        client = self._world.clients[name]
        assert isinstance(client, Consumer)
        return client

    def _poll(self, name: str) -> str:
        self._consumer(name).poll(self._tp)
        return ""

    def _read(self, name: str) -> str:
        consumer = self._consumer(name)
        before = len(consumer.reads)
        consumer.poll(self._tp)
        self._world.run_until(lambda: not consumer.busy, PATIENCE_MS)
        if consumer.last_error:
            return f"{name} reads nothing: {consumer.last_error}"
        values = " ".join(f"{read.value}@{read.offset}" for read in consumer.reads[before:])
        return f"{name} reads {values or 'nothing new'}"

    # ------------------------------------------------------------ processes

    def _each(self, one: Callable[[int], str]) -> Callable[..., str]:
        return lambda *brokers: "; ".join(remark for remark in map(one, brokers) if remark)

    def _is_up(self, broker: int) -> bool:
        return self._world.processes[broker].core is not None

    def _crash(self, broker: int) -> str:
        if not self._is_up(broker):
            return f"broker {broker} is down already"
        self._world.crash(broker)
        return ""

    def _power_off(self, *brokers: int) -> str:
        for broker in brokers:
            self._world.crash(broker, power=True)
        return ""

    def _restart(self, broker: int) -> str:
        if self._is_up(broker):
            return f"broker {broker} is running"
        self._world.start(broker)
        return ""

    def _pause(self, broker: int) -> str:
        if not self._is_up(broker) or broker in self._world.paused:
            return f"broker {broker} is not running"
        self._world.pause(broker)
        return ""

    def _resume(self, broker: int) -> str:
        if broker not in self._world.paused:
            return f"broker {broker} is not paused"
        self._world.resume(broker)
        return ""

    def _stop(self, broker: int) -> str:
        if not self._is_up(broker):
            return f"broker {broker} is down already"
        self._world.stop(broker)
        return ""

    def _sync(self, broker: int) -> str:
        self._world.sync_disk(broker)
        return ""

    def _keeper(self, number: int, *, running: bool) -> str:
        self._world.keeper_member(f"keeper-{number}", running=running)
        return ""

    # ------------------------------------------------------------ network

    def _nodes(self, places: tuple[str, ...]) -> list[Node]:
        """A place is a zone with everything in it, or a single node."""
        world, found = self._world, []
        for place in places:
            if place in world.zones():
                found += world.nodes_in(place)
            elif place.removeprefix("broker-").isdigit():
                found.append(int(place.removeprefix("broker-")))
            else:
                found.append(place)
        return found

    def _pairs(self, places: Places) -> list[tuple[Node, Node]]:
        left, right = self._nodes(places.left), self._nodes(places.right)
        pairs = [(a, b) for a in left for b in right if a != b]
        return pairs if places.one_way else pairs + [(b, a) for a, b in pairs]

    def _cut(self, places: Places) -> str:
        self._world.cut(self._pairs(places))
        return ""

    def _isolate(self, zone: str) -> str:
        others = tuple(other for other in self._world.zones() if other != zone)
        return self._cut(Places((zone,), others))

    def _heal(self, places: Places | None = None) -> str:
        self._world.heal(None if places is None else self._pairs(places))
        return ""

    def _reset(self, a: int, b: int) -> str:
        self._world.reset_connections(a, b)
        return ""

    def _delay(self, places: Places, delay: Duration) -> str:
        for pair in self._pairs(places):
            self._world.network.delays[pair] = delay.ms
        return ""

    def _hold(self, what: Channel | str) -> str:
        if isinstance(what, Channel):
            self._world.network.hold(what)
        else:
            self._world.network.hold_all = True
        return ""

    def _release(self, what: Channel | str) -> str:
        if isinstance(what, Channel):
            self._world.network.release(what)
        else:
            self._world.network.release_everything()
        return ""

    def _deliver(self, channel: Channel) -> str:
        if channel not in self._world.network.active or channel.target in self._world.paused:
            return f"nothing arrives on {channel}"
        self._world.deliver(channel)
        return ""

    def _drop(self, channel: Channel) -> str:
        if channel not in self._world.network.active:
            return f"nothing is in flight on {channel}"
        self._world.network.take(channel)
        return ""

    # ------------------------------------------------------------ time

    def _tick(self) -> str:
        if self._world.next_timer is None:
            return "no timer is set"
        self._world.tick()
        return ""

    def _advance(self, duration: Duration) -> str:
        self._world.advance(duration.ms)
        return ""

    def _settle(self) -> str:
        network = self._world.network
        held, network.hold_all = network.hold_all, False
        self._world.settle()
        network.hold_all = held
        return ""

    def _wait(self, condition: Condition) -> str:
        within = condition.within_ms if condition.within_ms is not None else PATIENCE_MS
        if condition.name == "converged":
            reached = converge(self._world, within)
        else:
            reached = self._world.run_until(self._test(condition), within)
        if reached:
            return ""
        return f"waited {within // 1000} s in vain for: {condition}"

    # ------------------------------------------------------------ administration

    def _elect_preferred(self) -> str:
        return "" if self._world.elect_preferred(self._tp) else "there is no controller to ask"

    def _configure(self, topic: str, *settings: str) -> str:
        config = self._world.processes[0].topic_configs.get(topic, TopicConfig())
        for setting in settings:
            key, _, value = setting.partition("=")
            if key == "min.insync.replicas":
                config = replace(config, min_insync_replicas=int(value))
            else:
                config = replace(config, unclean_leader_election=value == "true")
        self._world.configure_topic(topic, config)
        return ""

    # ------------------------------------------------------------ conditions

    def _replica(self, broker: int) -> Replica | None:
        core = self._world.processes[broker].core
        return core.replicas.get(self._tp) if core is not None else None

    def _test(self, condition: Condition) -> Callable[[], bool]:
        world, args = self._world, condition.args
        name = condition.name
        if name in ("leader", "epoch", "isr"):
            return lambda: self._state_is(name, args[0])
        if name == "controller":
            return lambda: self._controller_is(args[0])
        if name in ("registered", "unregistered"):
            path = broker_path(BrokerId(int(str(args[0]))))
            return lambda: (world.quorum.tree.get(path) is not None) == (name == "registered")
        if name in ("leads", "follows", "leo", "hw", "holds", "knows"):
            return lambda: self._replica_is(name, args)
        if name == "answered":
            producers = [client for client in world.clients.values() if isinstance(client, Producer)]
            return lambda: not any(producer.undecided for producer in producers)
        if name == "in-flight":
            return lambda: args[0] in world.network.active
        raise AssertionError(f"unknown condition {name}")

    def _state_is(self, name: str, wanted: object) -> bool:
        state = self._world.partition_state(self._tp)
        if state is None:
            return False
        if name == "leader":
            return state.leader == (NO_LEADER if wanted is None else wanted)
        if name == "epoch":
            return state.leader_epoch == wanted
        assert isinstance(wanted, tuple)
        return sorted(state.isr) == sorted(wanted)

    def _controller_is(self, wanted: object) -> bool:
        node = self._world.quorum.tree.get(CONTROLLER)
        process = self._world.processes[node.value] if node is not None else None
        return node is not None and node.value == wanted and process is not None and _acts(process.core)

    def _replica_is(self, name: str, args: tuple[object, ...]) -> bool:
        broker = int(str(args[0]))
        replica = self._replica(broker)
        if replica is None:
            return False
        if name == "leads":
            return isinstance(replica.role, LeaderRole)
        if name == "follows":
            return isinstance(replica.role, FollowerRole) and replica.role.leader == args[1]
        if name in ("holds", "knows"):
            end = replica.log.end_offset if name == "holds" else replica.high_watermark
            batches = self._world.processes[broker].storage.logs[self._tp].batches[:end]
            return any(batch.value == args[1] for batch in batches)
        return (replica.log.end_offset if name == "leo" else replica.high_watermark) == args[1]


def _acts(core: object) -> bool:
    controller = getattr(core, "controller", None)
    return controller is not None and controller.active


def _answered(record: Sent) -> bool:
    return record.outcome is not None
