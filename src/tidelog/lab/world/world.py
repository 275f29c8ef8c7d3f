"""The simulated cluster: processes, network, disks, keeper and clients under one virtual clock.

Two ways to move it. *Fair*: ``settle``, ``advance`` and ``run_until`` take whatever is due first, so the
cluster behaves as on a good day. *Chosen*: ``deliver`` and ``tick`` take exactly one step that the caller
picked, so any interleaving can be played. Both are deterministic: the world itself never draws a number.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from tidelog.core.assignments import TopicNode
from tidelog.core.effects import Stopped
from tidelog.core.keeper_paths import CONTROLLER, PERSISTENT, partition_path, state_path, topic_path
from tidelog.core.keeper_port import Create, Multi, SessionStarted, WatchFired
from tidelog.core.messages import ElectLeadersRequest, Message
from tidelog.core.topic_messages import AlterReassignmentRequest, CreateTopicRequest, DeleteTopicRequest
from tidelog.core.types import (
    FIRST_EPOCH,
    NO_TOPIC_ID,
    BrokerId,
    ControllerEpoch,
    Millis,
    PartitionState,
    TopicConfig,
    TopicId,
    TopicPartition,
)
from tidelog.faults.places import KEEPER, Channel, Node
from tidelog.lab.world.keeper import KeeperNotice, Quorum
from tidelog.lab.world.network import Network
from tidelog.lab.world.processes import SimProcess
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.events import ClientEvent
from tidelog.scenario.clients.producer import Producer, ProducerConfig
from tidelog.scenario.setup import Setup

Observer = Callable[[Any], None]
ADMIN = "admin"

_EXPIRE = "session"
MOST_DELIVERIES = 200_000
"""In one go until nothing is in flight. A cluster needs a few hundred; one that needs more goes round in
circles, and would do so for ever."""


class Stuck(Exception):
    """The world does not come to rest. The message says in one line what was seen."""


class World:
    def __init__(self, setup: Setup, observer: Observer) -> None:
        """``observer`` is called with every event, in order, right after the step that caused it."""
        setup.check()
        self.setup = setup
        self.now: Millis = 0
        self.network = Network(setup.latency_ms)
        self.observe = observer
        self.processes = [SimProcess(BrokerId(b), setup) for b in range(setup.brokers)]
        self.clients: dict[str, Producer | Consumer] = {}
        self.paused: dict[Node, None] = {}
        members = tuple(f"keeper-{i}" for i in range(setup.keepers))
        self.quorum = Quorum(members, setup.session_timeout_ms, self._keeper_notice, self._schedule_expiry)
        self._zones: dict[Node, str] = {b: setup.zone(b) for b in range(setup.brokers)}
        self._zones.update({member: setup.zone(i) for i, member in enumerate(members)})
        self.timers: list[tuple[Millis, int, Node | str, int]] = []
        """A heap: (when, sequence number, whom to wake, its incarnation)."""
        self._timer_sequence = 0
        self._brokers = tuple(range(setup.brokers))
        self.partitions = tuple(TopicPartition(topic.name, 0) for topic in setup.topics)
        self._state_paths = {tp: state_path(tp) for tp in self.partitions}
        self._boot()

    # ------------------------------------------------------------ beginning

    def _boot(self) -> None:
        for path in PERSISTENT:
            self.quorum.tree.make_path(path)
        first = self.setup.controller
        for broker in (first, *(b for b in self._brokers if b != first)):
            self.start(broker)
        self.settle()
        for topic in self.setup.topics:
            self._create_topic(topic.name, topic.replicas, topic.isr, topic.config)
        self.settle()

    def _create_topic(
        self, name: str, replicas: tuple[int, ...], isr: tuple[int, ...] | None, config: TopicConfig
    ) -> None:
        topic_id = TopicId(f"{name}-1") if self.setup.guards.topic_ids else NO_TOPIC_ID
        node = TopicNode({0: tuple(map(BrokerId, replicas))}, topic_id=topic_id)
        for process in self.processes:
            process.topic_configs[name] = config
            if process.core is not None:
                process.core.configure_topic(name, config)
        writes = [Create(topic_path(name), node)]
        if isr is not None:
            tp = TopicPartition(name, 0)
            state = PartitionState(
                BrokerId(replicas[0]), FIRST_EPOCH, tuple(map(BrokerId, isr)), ControllerEpoch(1)
            )
            writes += [
                Create(f"{topic_path(name)}/partitions"),
                Create(partition_path(tp)),
                Create(state_path(tp), state),
            ]
        self.quorum.administer(Multi(tuple(writes)))

    # ------------------------------------------------------------ clients

    def add_producer(self, name: str, zone: str, config: ProducerConfig) -> Producer:
        producer = Producer(name, config, self, 1_000 + len(self.clients))
        self.clients[name] = producer
        self._zones[name] = zone
        self._inherit_cuts(name, zone)
        return producer

    def add_consumer(self, name: str, zone: str) -> Consumer:
        consumer = Consumer(name, self, self.setup.rules.guards.fence_fetch_by_epoch)
        self.clients[name] = consumer
        self._zones[name] = zone
        self._inherit_cuts(name, zone)
        return consumer

    def _inherit_cuts(self, name: str, zone: str) -> None:
        """A client that appears in a zone which is already cut off shares the fate of the brokers there."""
        for a, b in list(self.network.blocked):
            if isinstance(a, int) and self._zones[a] == zone and isinstance(b, int):
                self.network.block(name, b)
            if isinstance(b, int) and self._zones[b] == zone and isinstance(a, int):
                self.network.block(a, name)

    def can_connect(self, client: str, broker: int) -> bool:
        network = self.network
        return self.processes[broker].core is not None and (
            not network.blocked or network.linked(client, broker)
        )

    def broker_ids(self) -> tuple[int, ...]:
        return self._brokers

    def zone_of(self, node: Node) -> str:
        return self._zones[node]

    def nodes_in(self, zone: str) -> list[Node]:
        return [node for node, of in self._zones.items() if of == zone]

    def zones(self) -> list[str]:
        return list(dict.fromkeys(self._zones.values()))

    def client_sends(self, client: str, broker: int, correlation: int, message: Message) -> None:
        self.network.send("client", client, broker, ((client, correlation), message), self.now)

    def wake_client(self, client: str, at: Millis) -> None:
        self._timer_sequence = sequence = self._timer_sequence + 1
        heappush(self.timers, (at, sequence, client, 0))

    def client_observed(self, observation: ClientEvent) -> None:
        self.observe(observation)

    # ------------------------------------------------------------ time

    def schedule(self, at: Millis, target: Node, incarnation: int) -> None:
        self._timer_sequence = sequence = self._timer_sequence + 1
        heappush(self.timers, (at, sequence, target, incarnation))

    def _schedule_expiry(self, at: Millis, broker: int) -> None:
        self.schedule(at, _EXPIRE, broker)

    @property
    def next_timer(self) -> Millis | None:
        return self.timers[0][0] if self.timers else None

    def tick(self) -> None:
        """Let time pass to the next timer, and fire it."""
        at, _, target, extra = heappop(self.timers)
        self.now = max(self.now, at)
        if target == _EXPIRE:
            if self.quorum.expire(extra, self.now):
                self._drop_keeper_traffic(extra)
        elif isinstance(target, int):
            process = self.processes[target]
            core = process.core
            if core is not None and process.incarnation == extra:
                if target in self.paused:
                    process.slept = True
                else:
                    core.wake(self.now)
                    if core.effects:
                        self._carry_out(process)
        else:
            self.clients[target].wake()

    # ------------------------------------------------------------ moving one step

    def deliverable(self) -> list[Channel]:
        """Channels whose next message could arrive now, held or not, in the order they became busy."""
        if not self.paused:
            return list(self.network.active)
        return [channel for channel in self.network.active if channel.target not in self.paused]

    def oldest_message(self) -> Channel | None:
        """What would arrive next on a good day, whether it is held or not."""
        network = self.network
        held, network.hold_all = network.hold_all, False
        head = network.earliest(self.paused)
        network.hold_all = held
        return None if head is None else head[1]

    def deliver(self, channel: Channel) -> None:
        active = self.network.active
        queue = active[channel]
        payload = queue.pop(0)[2]  # ``Network.take``, without a call: this is done for every message
        if not queue:
            del active[channel]
        name, source, target = channel
        if isinstance(target, int):
            process = self.processes[target]
            core = process.core
            if core is None:
                return
            if name == "keeper-reply":
                core.keeper_notice(payload, self.now)
            else:
                sender, message = payload
                core.receive(sender, message, self.now)
            if core.effects:
                self._carry_out(process)
        elif target == KEEPER:
            assert isinstance(source, int)
            self.quorum.call(source, *payload)
        else:
            correlation, reply = payload
            if target in self.clients:
                self.clients[target].replied(correlation, reply)

    def _carry_out(self, process: SimProcess) -> None:
        """Tell what happened in the step that a core has taken. What it asked for is on its way already."""
        core = process.core
        if core is None or not core.effects:
            return
        for effect in core.effects:
            if isinstance(effect, Stopped):
                process.leaving = True
            else:
                self.observe(effect)
        core.effects.clear()
        if process.leaving:
            self._leave(process)

    def _keeper_notice(self, broker: int, notice: KeeperNotice) -> None:
        self.network.send("keeper-reply", KEEPER, broker, notice, self.now)

    # ------------------------------------------------------------ moving fairly

    def step(self, until: Millis | None) -> bool:
        """Take the one event that is due first, unless it is later than ``until``. False if there is none."""
        head = self.network.earliest(self.paused)
        timer = self.next_timer
        if head is not None and (timer is None or head[0] <= timer):
            due, channel = head
            if until is not None and due > until:
                return False
            self.now = max(self.now, due)
            self.deliver(channel)
            return True
        if timer is None or (until is not None and timer > until):
            return False
        self.tick()
        return True

    def settle(self) -> None:
        """Run until nothing is in flight that may move. Timers fire only if they come due on the way."""
        network, paused, timers = self.network, self.paused, self.timers
        for _ in range(MOST_DELIVERIES):
            head = network.earliest(paused)
            if head is None:
                return
            due, channel = head
            if timers and timers[0][0] < due:
                self.tick()
                continue
            self.now = max(self.now, due)
            self.deliver(channel)
        raise Stuck(f"{MOST_DELIVERIES} messages later there are still some in flight, at {self.now} ms")

    def advance(self, duration: Millis) -> None:
        until = self.now + duration
        while self.step(until):
            pass
        self.now = until

    def run_until(self, condition: Callable[[], bool], limit: Millis) -> bool:
        """Run fairly until the condition holds; False if it does not within ``limit``."""
        until = self.now + limit
        while not condition():
            if not self.step(until):
                self.now = until
                return condition()
        return True

    # ------------------------------------------------------------ processes

    def start(self, broker: int) -> None:
        process = self.processes[broker]
        process.start(self)
        self.quorum.expire_after_restart(broker)
        if self._keeper_reachable(broker):
            self._reconnect_to_keeper(process)
        for peer in self.processes:
            if peer.core is not None and peer.id != broker and self.network.linked(broker, peer.id):
                self._connected(peer, broker)

    def crash(self, broker: int, *, power: bool = False) -> None:
        """The process dies. What it had sent still arrives and its page cache survives; unless the machine
        loses power, which takes both."""
        process = self.processes[broker]
        process.kill()
        self.paused.pop(broker, None)
        self.network.lose_to(broker)
        if power:
            self.network.lose_from(broker)
            process.storage.lose_power()
        self.quorum.disconnect(broker, self.now)
        for client in list(self.clients.values()):
            client.disconnected(broker)

    def stop(self, broker: int) -> None:
        """Ask for a controlled shutdown: the process leaves once leadership has moved."""
        process = self.processes[broker]
        if process.core is not None:
            process.core.stop(self.now)
            self._carry_out(process)

    def _leave(self, process: SimProcess) -> None:
        process.leaving = False
        process.storage.close()
        self._answer_last(process.id)
        self.crash(process.id)
        self.quorum.end_session(process.id)

    def _answer_last(self, broker: int) -> None:
        """A process that ends in order has written its last answers, and clients read them before they find
        the connection closed."""
        network = self.network
        if not network.hold_all:
            for channel in [c for c in network.active if c.source == broker and c.target in self.clients]:
                while channel in network.active and not network.is_held(channel):
                    self.deliver(channel)

    def pause(self, broker: int) -> None:
        """SIGSTOP: nothing is processed, nothing is lost, and the keeper session is not renewed."""
        self.paused[broker] = None
        self.quorum.disconnect(broker, self.now)

    def resume(self, broker: int) -> None:
        process = self.processes[broker]
        del self.paused[broker]
        if self._keeper_reachable(broker):
            self._reconnect_to_keeper(process)
        if process.slept and process.core is not None:
            process.slept = False
            process.core.wake(self.now)
            self._carry_out(process)
        for peer in process.missed_connections:
            self._connected(process, peer)
        process.missed_connections.clear()

    def _connected(self, process: SimProcess, peer: int) -> None:
        if process.core is None:
            return
        if process.id in self.paused:
            process.missed_connections[peer] = None
        else:
            process.core.connected(BrokerId(peer))
            self._carry_out(process)

    # ------------------------------------------------------------ network faults

    def cut(self, pairs: list[tuple[Node, Node]]) -> None:
        """Cut each (source, target) direction: what is in flight is lost, what is sent later too."""
        for a, b in pairs:
            self.network.block(a, b)
        self._reachability_changed()

    def heal(self, pairs: list[tuple[Node, Node]] | None = None) -> None:
        if pairs is None:
            pairs = sorted(self.network.blocked, key=str)
        healed = [pair for pair in pairs if self.network.unblock(*pair)]
        if not healed:
            return
        self._reachability_changed()
        self._reconnect({(a, b) if str(a) < str(b) else (b, a) for a, b in healed})

    def reset_connections(self, a: int, b: int) -> None:
        """Both directions lose what is in flight, and both ends connect again at once."""
        self.network.lose_between(a, b)
        self.network.lose_between(b, a)
        self._reconnect({(a, b)})

    def _reconnect(self, pairs: set[tuple[Node, Node]]) -> None:
        for a, b in sorted(pairs, key=str):
            if not self.network.linked(a, b):
                continue
            for here, there in ((a, b), (b, a)):
                if (
                    isinstance(here, int)
                    and isinstance(there, int)
                    and self.processes[there].core is not None
                ):
                    self._connected(self.processes[here], there)

    # ------------------------------------------------------------ the keeper's members

    def keeper_member(self, member: str, *, running: bool) -> None:
        self.quorum.running[member] = running
        self._reachability_changed()

    def _keeper_reachable(self, broker: int) -> bool:
        return self.quorum.connect(broker, self._zones, self.network.linked)

    def _reconnect_to_keeper(self, process: SimProcess) -> None:
        """The broker hears of settings that have changed meanwhile, too."""
        self.quorum.reconnect(process.id)
        for topic, config in process.topic_configs.items():
            if process.core is not None and process.core.ctx.topic_configs.get(topic) != config:
                process.core.configure_topic(topic, config)
                self._carry_out(process)

    def _reachability_changed(self) -> None:
        """Find out again which members have a majority, and which sessions may expire."""
        self.quorum.update(self.network.linked, self.now)
        for process in self.processes:
            if process.core is None:
                continue
            if self._keeper_reachable(process.id):
                if process.id not in self.paused:
                    self._reconnect_to_keeper(process)
            elif self.quorum.break_connection(process.id, self.now):
                self._drop_keeper_traffic(process.id)

    def _drop_keeper_traffic(self, broker: int) -> None:
        """The connection to the keeper broke: calls and answers are lost, notices are sent later."""
        self.network.lose_between(broker, KEEPER)
        for notice in self.network.in_flight(Channel("keeper-reply", KEEPER, broker)):
            if isinstance(notice, (WatchFired, SessionStarted)):
                self.quorum.missed(broker, notice)
        self.network.lose_between(KEEPER, broker)

    # ------------------------------------------------------------ administration

    def elect_preferred(self, tp: TopicPartition) -> bool:
        """Ask the controller for a preferred-leader election. False if there is no controller to ask."""
        return self._ask_controller(ElectLeadersRequest(tp=tp))

    def reassign(self, tp: TopicPartition, brokers: tuple[int, ...] | None) -> bool:
        """Ask the controller to move a partition, or to cancel its move."""
        replicas = None if brokers is None else tuple(map(BrokerId, brokers))
        return self._ask_controller(AlterReassignmentRequest(tp=tp, replicas=replicas))

    def create_topic(self, topic: str, brokers: tuple[int, ...]) -> bool:
        replicas = {0: tuple(map(BrokerId, brokers))}
        return self._ask_controller(CreateTopicRequest(topic=topic, assignment=replicas))

    def delete_topic(self, topic: str) -> bool:
        return self._ask_controller(DeleteTopicRequest(topic=topic))

    def _ask_controller(self, request: Message) -> bool:
        node = self.quorum.tree.get(CONTROLLER)
        if node is None or self.processes[node.value].core is None:
            return False
        self.network.send("client", ADMIN, node.value, ((ADMIN, 0), request), self.now)
        return True

    def configure_topic(self, topic: str, config: TopicConfig) -> None:
        """Change a topic's settings. Brokers hear of it if they reach the keeper, or when they start."""
        for process in self.processes:
            process.topic_configs[topic] = config
            if process.core is not None and self.quorum.is_connected(process.id):
                process.core.configure_topic(topic, config)
                self._carry_out(process)

    def sync_disk(self, broker: int) -> None:
        self.processes[broker].storage.sync()

    def topic_node(self, topic: str) -> TopicNode | None:
        """The replicas of a topic, as the keeper holds them."""
        node = self.quorum.tree.get(topic_path(topic))
        return None if node is None else node.value

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        """What the keeper holds: the truth about who leads."""
        node = self.quorum.tree.get(self._state_paths.get(tp) or state_path(tp))
        return node.value if node is not None else None
