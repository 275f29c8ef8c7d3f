"""Real broker processes as a stage: what the commands of a scenario do to them.

The processes are those that users run. Faults come from outside: signals for crashes and pauses, the
switchboard for the network, the files for power cuts. Time is scaled (``clock``). The lab is exact and
processes are not, so this file makes both mean the same:

* A session expires one time-out after the fault that ended its broker's heartbeats, as in the lab, not after
  the last heartbeat before the fault (``sessions``). A step that hits several brokers hits them at once.
* After every step the stage waits until messages on their way have arrived and the network is quiet.
* Snapshots take real time, but no scenario time (``clock``).
* A wait is limited to the scenario's time only where the lab's wait times out as well. Everywhere else the
  limit allows for a busy machine: slowness is no finding.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from tidelog.cluster.disks import Disks
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.network.networks import LOOPBACK
from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.core.keeper_port import Delete
from tidelog.core.types import Millis
from tidelog.faults.places import KEEPER, Channel, Node
from tidelog.faults.testbed import Links
from tidelog.kafka_client.aio import ask
from tidelog.keeper.embedded.server import EmbeddedKeeper
from tidelog.process_stage.boot import (
    administer,
    alteration,
    broker_settings,
    create_topics,
    creation,
    fetch_wait_ms,
    require_playable,
    start_brokers,
    start_keeper,
)
from tidelog.process_stage.clients import Clients
from tidelog.process_stage.clock import Pace, ScenarioClock
from tidelog.process_stage.conditions import Conditions
from tidelog.process_stage.events import BrokerEventReader
from tidelog.process_stage.observation import Observation
from tidelog.process_stage.processes import Processes
from tidelog.process_stage.sessions import Sessions
from tidelog.process_stage.settling import Settling, Views
from tidelog.process_stage.topology import Reach, Topology
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.events import ClientEvent
from tidelog.scenario.clients.producer import Producer, ProducerConfig
from tidelog.scenario.conditions import Condition
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.snapshot import PartitionSnapshot, Snapshot
from tidelog.scenario.stage import Stage
from tidelog.wire.api import Api
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PATIENCE_SECONDS = 20.0
LONGEST_WAIT_MS = 45_000
"""The longest wait of the catalogue that succeeds in the lab. On a cluster ``PATIENCE_SECONDS`` are added,
because the start of a process is not scaled."""
TIMED_OUT_MS = 20_000
"""How long to wait where the lab's wait of two minutes times out."""
POLL_SECONDS = 0.005
FINAL_SECONDS_MAX = 3.0
FINAL_PAUSE_SECONDS = 0.15
KEEPER_LOG = "tidelog.keeper"
ANSWER_SECONDS_MAX = 5.0
LEAVE_SECONDS_MAX = 20.0
DELIVER_SECONDS_MAX = 2.0

Result = TypeVar("Result")


class ClusterStage(Stage):
    def __init__(self, scenario: Scenario, processes: Processes, pace: Pace) -> None:
        """Raises ``TrialError`` if this scenario needs what only the simulator can do."""
        require_playable(scenario)
        setup = scenario.setup
        self._setup = setup
        self._tp = scenario.partition
        self._pace = pace
        self._processes = processes
        self._loop = processes.loop
        self._folder = processes.begin_play(setup.brokers)
        self._switchboard = Switchboard(hang_ms=pace.seconds(1_000) * 1000)
        self._topology = Topology(setup, self._switchboard)
        self._disks = Disks()
        self._keeper_log = logging.FileHandler(self._folder / "keeper.log", delay=True)
        self._broker_events = BrokerEventReader(self._folder / "events")
        self._client_events: list[tuple[int, Millis, object]] = []
        """Events of clients, with the time of day and the scenario's."""
        self._events_until: Millis = 0
        self._clock = ScenarioClock(self._loop, pace)
        self._clients = Clients(
            self._clock,
            pace,
            self._loop,
            brokers=setup.brokers,
            zone_of=self._topology.zone_of,
            can_connect=self._can_connect,
            route=self._switchboard.route,
            observe=self._observed,
        )
        self._keeper: EmbeddedKeeper
        self._sessions: Sessions
        self._observation: Observation
        self._conditions: Conditions
        self._settling: Settling
        self._views: Views = {}
        self._is_settled = False
        """The last command caused no messages."""
        self._times_out = False
        self._step_began: Millis = 0
        self._registering: set[asyncio.Future[None]] = set()

    # ------------------------------------------------------------ beginning and end

    def open(self) -> None:
        """Start everything. Raises ``TrialError``, with nothing left running, if that fails."""
        self._run(self._open())

    async def _open(self) -> None:
        logging.getLogger(KEEPER_LOG).addHandler(self._keeper_log)
        logging.getLogger(KEEPER_LOG).propagate = False
        self._keeper = await start_keeper(self._switchboard)
        self._sessions = Sessions(self._keeper, self._clock, self._setup.session_timeout_ms)
        self._observation = Observation(
            self._setup, self._processes, self._keeper, self._topology, self._scenario_time
        )
        self._conditions = Conditions(
            self._setup, self._tp, self._observation, self._clients.all, self._switchboard
        )
        self._settling = Settling(
            self._setup, self._switchboard, self._topology, self._processes, self._observation
        )
        await start_brokers(self._setup, self._observation, self._start)
        if self._setup.latency_ms > 1:
            links = itertools.permutations(range(self._setup.brokers), 2)
            self._switchboard.delay(list(links), self._pace.ms(self._setup.latency_ms))
        self._clock.start()
        with self._clock.stopped():
            await create_topics(self._setup, self._processes, self._observation, self._keeper)
            self._views = await self._settling.settle()
            self._broker_events.new()

    def begin_step(self, *, times_out: bool) -> None:
        """``times_out``: in the lab the wait of this step timed out."""
        self._times_out = times_out
        self._step_began = self.now

    def close(self) -> None:
        for waiting in self._registering:
            waiting.cancel()
        self._clock.stop()
        self._clients.close()
        self._processes.end_play()
        if hasattr(self, "_keeper"):
            self._run(self._keeper.stop())
        self._switchboard.close()
        logging.getLogger(KEEPER_LOG).removeHandler(self._keeper_log)
        logging.getLogger(KEEPER_LOG).propagate = True
        self._keeper_log.close()

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._processes.run(work)

    # ------------------------------------------------------------ looking

    @property
    def now(self) -> Millis:
        return self._clock.now

    def snapshot(self) -> Snapshot:
        """As it was when it last settled."""
        with self._clock.stopped():
            return self._run(self._observation.take(self.now, self._views, self.clients))

    def final_snapshot(self) -> Snapshot:
        """The snapshot at the end, once two in a row are equal: brokers write epochs to their file in the
        background, which takes time on a busy disk."""
        deadline = self._loop.time() + FINAL_SECONDS_MAX
        found = self.snapshot()
        while self._loop.time() < deadline:
            self._run(asyncio.sleep(FINAL_PAUSE_SECONDS))
            self.settle()
            before, found = found, self.snapshot()
            if _kept(before) == _kept(found):
                break
        return found

    def _scenario_time(self, real_ms: int) -> Millis:
        """A number of real milliseconds from now, by the clocks of brokers."""
        return self.now + self._pace.scenario_ms(real_ms / 1000)

    def events(self) -> list[tuple[Millis, object]]:
        """Events of brokers and clients since the last call, in the order of time. Brokers record the time of
        day, so the scenario time of their events is approximate."""
        now, wall_ms = self.now, time.time() * 1000
        happened = [
            (at, max(now - self._pace.scenario_ms((wall_ms - at) / 1000), self._events_until), event)
            for at, event in self._broker_events.new()
        ]
        merged = sorted([*happened, *self._client_events], key=lambda entry: entry[0])
        self._client_events, self._events_until = [], now
        return [(at_ms, event) for _, at_ms, event in merged]

    def _observed(self, event: ClientEvent) -> None:
        self._client_events.append((int(time.time() * 1000), self.now, event))

    # ------------------------------------------------------------ clients

    @property
    def clients(self) -> Mapping[str, Producer | Consumer]:
        return self._clients.all

    def add_producer(self, name: str, zone: str, config: ProducerConfig) -> Producer:
        self._topology.add_client(name, zone)
        return self._clients.add_producer(name, config)

    def add_consumer(self, name: str, zone: str) -> Consumer:
        self._topology.add_client(name, zone)
        return self._clients.add_consumer(name, uses_epochs=self._setup.rules.guards.fence_fetch_by_epoch)

    def _can_connect(self, client: str, broker: int) -> bool:
        return self.is_up(broker) and self._topology.linked(client, broker)

    # ------------------------------------------------------------ processes

    def is_up(self, broker: int) -> bool:
        return self._processes.brokers[broker].is_up

    def is_paused(self, broker: int) -> bool:
        return self._processes.brokers[broker].paused

    def start(self, broker: int) -> None:
        self._run(self._start(broker))

    async def _start(self, broker: int) -> None:
        before = self._observation.session_of(broker)
        self._sessions.expire_after_restart(before)
        routes = {
            peer: self._switchboard.route(broker, peer)
            for peer in range(self._setup.brokers)
            if peer != broker
        }
        host, port = self._switchboard.route(broker, KEEPER)
        settings = broker_settings(self._setup, self._pace) | {
            "broker.rack": self._topology.zone_of(broker),
            "tidelog.keeper": f"embedded://{host}:{port}",
            "tidelog.peer.routes": ",".join(f"{peer}={h}:{p}" for peer, (h, p) in routes.items()),
            "tidelog.evidence.dir": str(self._folder / "events"),
        }
        self._switchboard.place(broker, LOOPBACK, self._processes.brokers[broker].port)
        await self._processes.start(broker, settings)
        if not self._topology.reaches_keeper(broker):
            return
        if before is not None and self._setup.rules.is_started_again:
            # It registers when the old session has expired, and the scenario goes on meanwhile.
            self._registering.add(asyncio.ensure_future(self._registers(broker)))
        else:
            await self._processes.registered(broker)

    async def _registers(self, broker: int) -> None:
        with suppress(ClusterError):  # the scenario may end it before
            await self._processes.registered(broker)

    def kill(self, broker: int) -> None:
        self._silent(broker)
        self._run(self._processes.kill(broker))

    def lose_power(self, broker: int) -> None:
        self._run(self._lose_power(broker))

    async def _lose_power(self, broker: int) -> None:
        """The freeze comes first: what the broker syncs after it was asked must not reach anyone."""
        self._switchboard.freeze(broker)
        view = await self._observation.view(broker)
        self._silent(broker)
        await self._processes.kill(broker)
        points = {} if view is None else {tp: r.recovery_point for tp, r in view.replicas.items()}
        self._disks.lose_power(self._processes.brokers[broker].folder, points)
        self._switchboard.thaw(broker)

    def pause(self, broker: int) -> None:
        self._run(self._observation.view(broker, beliefs=True))  # views show this while it is paused
        self._silent(broker)
        self._processes.pause(broker)

    def resume(self, broker: int) -> None:
        self._processes.resume(broker)
        if self._topology.reaches_keeper(broker):
            self._heard_again(broker)

    def stop(self, broker: int) -> None:
        self._processes.ask_to_leave(broker)
        self._wait(lambda: not self.is_up(broker), LEAVE_SECONDS_MAX)

    def sync_disk(self, broker: int) -> None:
        self._disks.sync(self._processes.brokers[broker].folder)

    # ------------------------------------------------------------ the keeper

    def keeper_member(self, member: int, *, running: bool) -> None:
        self._reach_changed(self._topology.keeper_member(f"keeper-{member}", running=running))

    def _reach_changed(self, reach: Reach) -> None:
        for broker in reach.lost:
            if not self.is_paused(broker):
                self._silent(broker)
        self._sessions.majority(exists=self._topology.keeper_has_quorum, now=self._step_began)
        for broker in reach.found:
            if not self.is_paused(broker):
                self._heard_again(broker)

    def _silent(self, broker: int) -> None:
        """The broker's session is not renewed from this step on, if it was before."""
        if self.is_up(broker):
            self._sessions.silent(self._observation.session_of(broker), self._step_began)

    def _heard_again(self, broker: int) -> None:
        if self.is_up(broker):
            self._sessions.heard(self._observation.session_of(broker), self._loop.time())

    # ------------------------------------------------------------ network

    def zones(self) -> list[str]:
        return self._topology.zones()

    def nodes_in(self, zone: str) -> list[Node]:
        return self._topology.nodes_in(zone)

    def cut(self, links: Links) -> None:
        self._reach_changed(self._topology.cut(list(links)))

    def mend(self, links: Links | None) -> None:
        self._reach_changed(self._topology.heal(None if links is None else list(links)))

    def reset_connections(self, a: int, b: int) -> None:
        self._switchboard.reset(a, b)

    def delay(self, links: Links, ms: int) -> None:
        self._switchboard.delay(list(links), self._pace.ms(ms))

    def hold(self, channels: Iterable[Channel] | None) -> None:
        """In the lab a follower's fetch waits at its leader when a step begins to hold fetches. So here the
        hold begins right after a fetch has passed."""
        for channel in (None,) if channels is None else channels:
            if channel is not None and channel.name == "fetch":
                wait_s = fetch_wait_ms(self._setup, self._pace) / 1000
                self._run(self._settling.next_fetch(channel, wait_s))
            self._settling.hold(channel)
        self._is_settled = True

    def release(self, channels: Iterable[Channel] | None) -> None:
        for channel in (None,) if channels is None else channels:
            self._settling.release(channel)

    def deliver(self, channel: Channel) -> bool:
        if isinstance(channel.target, int) and self.is_paused(channel.target):
            return False
        self._wait(lambda: self._switchboard.in_flight(channel) > 0, DELIVER_SECONDS_MAX)
        return self._switchboard.deliver(channel)

    def drop(self, channel: Channel) -> bool:
        return self._switchboard.drop(channel)

    # ------------------------------------------------------------ time

    def tick(self) -> bool:
        """A process does not show its timers. The shortest one of a broker is a follower's fetch wait."""
        self.advance(self._setup.config.replica_fetch_wait_max_ms)
        return True

    def advance(self, duration: Millis) -> None:
        self._run(self._clock.pass_time(duration))

    def settle(self) -> None:
        with self._clock.stopped():
            self._views = self._run(self._settling.settle())

    def settle_after_step(self) -> None:
        if not self._is_settled:
            self.settle()
        self._is_settled = False

    def run_until(self, condition: Callable[[], bool], limit: Millis) -> bool:
        return self._wait(condition, self._pace.seconds(limit) + PATIENCE_SECONDS)

    def _wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        async def check() -> bool:
            return condition()

        return self._run(self._poll(check, seconds))

    def reaches(self, condition: Condition, limit: Millis) -> bool:
        if self._times_out:
            seconds = self._pace.seconds(min(limit, TIMED_OUT_MS))
        else:
            seconds = self._pace.seconds(LONGEST_WAIT_MS) + PATIENCE_SECONDS
        return self._run(self._poll(lambda: self._conditions.holds(condition), seconds))

    async def _poll(self, check: Callable[[], Coroutine[Any, Any, bool]], seconds: float) -> bool:
        deadline = self._loop.time() + seconds
        while not await check():
            if self._loop.time() > deadline:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    # ------------------------------------------------------------ administration

    def elect_preferred(self) -> bool:
        parts = [TopicPartitions(topic=self._tp.topic, partitions=[self._tp.partition])]
        question = ElectLeadersRequest(election_type=0, topic_partitions=parts, timeout_ms=10_000)
        return self._ask_controller(Api.ELECT_LEADERS, 2, question)

    def configure_topic(self, topic: str, settings: dict[str, str]) -> None:
        self._ask_controller(Api.INCREMENTAL_ALTER_CONFIGS, 0, alteration(topic, settings))

    def reassign(self, topic: str, brokers: tuple[int, ...] | None) -> bool:
        replicas = None if brokers is None else list(brokers)
        parts = [ReassignablePartition(partition_index=0, replicas=replicas)]
        question = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=parts)], timeout_ms=10_000
        )
        return self._ask_controller(Api.ALTER_PARTITION_REASSIGNMENTS, 0, question)

    def create_topic(self, topic: str, brokers: tuple[int, ...]) -> bool:
        known = next(each for each in self._setup.topics if each.name == topic)
        return self._ask_controller(Api.CREATE_TOPICS, 4, creation(replace(known, replicas=brokers)))

    def delete_topic(self, topic: str) -> bool:
        question = DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000)
        return self._ask_controller(Api.DELETE_TOPICS, 4, question)

    def delete_node(self, path: str) -> bool:
        return self._topology.keeper_has_quorum and self._run(administer(self._keeper, Delete(path)))

    def _ask_controller(self, api: Api, version: int, question: Any) -> bool:
        """Ask on a direct connection, which no fault affects. False if there is no controller."""
        controller = self._observation.controller()
        if controller is None or not self.is_up(controller):
            return False
        at = self._processes.brokers[controller].at
        assert at is not None
        with suppress(OSError):  # it is heard all the same, as soon as the process runs again
            self._run(ask((at.host, at.port), api, version, question, ANSWER_SECONDS_MAX))
        return True


def _kept(snapshot: Snapshot) -> list[PartitionSnapshot]:
    """Without fetches that come and go, and without the times of followers."""
    return [
        replace(partition, replicas=tuple(replace(each, remote=(), parked=()) for each in partition.replicas))
        for partition in snapshot.partitions
    ]
