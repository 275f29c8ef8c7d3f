"""Real broker processes as a stage: what the commands of a scenario do to them.

The processes are exactly those that ship; faults come from outside. Signals for crashes and pauses, the
switchboard for everything about the network, the files for power cuts. Time is scaled (``pace``). Where the
lab is exact and reality is not, this file sees to it that both mean the same:

* A session runs out its time-out after the fault that ended its broker's heartbeats, as in the lab, not after
  the last heartbeat before it (``sessions``); and what one step does to several brokers happens to all of
  them at once.
* After every step what is on its way arrives: until nothing has moved for a moment.
* Looking takes real time, but none of the scenario's (``clock``).
* A wait gets the scenario's time only where the lab waits in vain as well. Everywhere else it gets as long as
  a busy machine may need: slowness is no finding.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from tidelog.cluster.disks import Disks
from tidelog.cluster.network.networks import LOOPBACK
from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.core.types import Millis
from tidelog.faults.places import KEEPER, Channel, Node
from tidelog.faults.testbed import Links
from tidelog.kafka_client.aio import ask
from tidelog.keeper.embedded.server import EmbeddedKeeper
from tidelog.process_stage.boot import create_topics, start_brokers, start_keeper
from tidelog.process_stage.clients import Clients
from tidelog.process_stage.clock import ScenarioClock
from tidelog.process_stage.conditions import Conditions
from tidelog.process_stage.events import Happenings
from tidelog.process_stage.observation import Observation
from tidelog.process_stage.pace import Pace
from tidelog.process_stage.processes import Processes
from tidelog.process_stage.sessions import Sessions
from tidelog.process_stage.settling import Settling, Views
from tidelog.process_stage.topology import Reach, Topology
from tidelog.process_stage.translation import alteration, broker_settings, fetch_wait_ms, require_playable
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.events import ClientEvent
from tidelog.scenario.clients.producer import Producer, ProducerConfig
from tidelog.scenario.conditions import Condition
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.snapshot import Snapshot
from tidelog.scenario.stage import Stage
from tidelog.wire.api import Api
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PATIENCE_SECONDS = 20.0
LONGEST_WAIT_MS = 45_000
"""No wait of the catalogue that ends well takes longer in the lab; on a cluster ``PATIENCE_SECONDS`` come on
top, because starting a process is not scaled."""
IN_VAIN_MS = 20_000
"""Where the lab waits in vain for two minutes, so much is enough to see that nothing comes."""
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
        self._happenings = Happenings(self._folder / "events")
        self._told: list[tuple[int, Millis, object]] = []
        """What clients heard, with the time of day and the scenario's."""
        self._told_until: Millis = 0
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
        """Nothing was set in motion by the last command."""
        self._waits_in_vain = False
        self._step_began: Millis = 0

    # ------------------------------------------------------------ beginning and end

    def open(self) -> None:
        """Start everything. Raises ``TrialError``, with nothing left running, if that fails."""
        self._run(self._open())

    async def _open(self) -> None:
        logging.getLogger(KEEPER_LOG).addHandler(self._keeper_log)
        logging.getLogger(KEEPER_LOG).propagate = False
        self._keeper = await start_keeper(self._switchboard)
        self._sessions = Sessions(self._keeper, self._clock, self._setup.session_timeout_ms)
        self._observation = Observation(self._setup, self._processes, self._keeper)
        self._conditions = Conditions(
            self._setup, self._tp, self._observation, self._clients.all, self._switchboard
        )
        self._settling = Settling(
            self._setup, self._switchboard, self._topology, self._processes, self._observation
        )
        await start_brokers(self._setup, self._observation, self._start)
        if self._setup.latency_ms > 1:
            everybody = [*range(self._setup.brokers)]
            pairs = [(a, b) for a in everybody for b in everybody if a != b]
            self._switchboard.delay(pairs, self._pace.ms(self._setup.latency_ms))
        self._clock.start()
        with self._clock.standing_still():
            await create_topics(self._setup, self._processes, self._observation, self._keeper)
            self._views = await self._settling.settle()
            self._happenings.new()

    def begin_step(self, *, in_vain: bool) -> None:
        """``in_vain``: the lab found that the condition of this step does not come true in its time."""
        self._waits_in_vain = in_vain
        self._step_began = self.now

    def close(self) -> None:
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
        with self._clock.standing_still():
            return self._run(self._observation.take(self.now, self._views))

    def final_snapshot(self) -> Snapshot:
        """The end: when it looks the same twice. Epochs are written to their file in the background, which on
        a busy disk may take a while."""
        deadline = self._loop.time() + FINAL_SECONDS_MAX
        found = self.snapshot()
        while self._loop.time() < deadline:
            self._run(asyncio.sleep(FINAL_PAUSE_SECONDS))
            self.settle()
            before, found = found, self.snapshot()
            if before.partitions == found.partitions:
                break
        return found

    def events(self) -> list[tuple[Millis, object]]:
        """What happened since the last call, to brokers and clients, in the order of time. When it happened
        to a broker is known by the time of day alone, and so in scenario time only about."""
        now, wall_ms = self.now, time.time() * 1000
        happened = [
            (at, max(now - self._pace.scenario_ms((wall_ms - at) / 1000), self._told_until), event)
            for at, event in self._happenings.new()
        ]
        merged = sorted([*happened, *self._told], key=lambda entry: entry[0])
        self._told, self._told_until = [], now
        return [(at_ms, event) for _, at_ms, event in merged]

    def _observed(self, event: ClientEvent) -> None:
        self._told.append((int(time.time() * 1000), self.now, event))

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
        self._sessions.forsake(self._observation.session_of(broker))
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
        if self._topology.reaches_keeper(broker):
            await self._processes.registered(broker)

    def kill(self, broker: int) -> None:
        self._silent(broker)
        self._run(self._processes.kill(broker))

    def lose_power(self, broker: int) -> None:
        self._run(self._lose_power(broker))

    async def _lose_power(self, broker: int) -> None:
        """Nothing that it says from now on arrives, so how far its logs are synced cannot matter any more."""
        self._switchboard.freeze(broker)
        view = await self._observation.view(broker)
        self._silent(broker)
        await self._processes.kill(broker)
        points = {} if view is None else {tp: r["recovery_point"] for tp, r in view.replicas.items()}
        self._disks.lose_power(self._processes.brokers[broker].folder, points)
        self._switchboard.thaw(broker)

    def pause(self, broker: int) -> None:
        self._run(self._observation.view(broker, beliefs=True))  # as it is, as long as it sleeps
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
        """From this step on nobody renews a broker's session, unless that was so before."""
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
        """Before a step of the lab everything has arrived: a follower's fetch waits at its leader when the
        next one is held. Here it is held right after one has passed."""
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
        """Nobody can look at the timers of a process: the shortest that a broker has is a follower's wait."""
        self.advance(self._setup.config.replica_fetch_wait_max_ms)
        return True

    def advance(self, duration: Millis) -> None:
        self._run(self._clock.pass_time(duration))

    def settle(self) -> None:
        with self._clock.standing_still():
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
        if self._waits_in_vain:
            seconds = self._pace.seconds(min(limit, IN_VAIN_MS))
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

    def _ask_controller(self, api: Api, version: int, question: Any) -> bool:
        """As an administrator next to it would, past all faults. False if there is nobody to ask."""
        controller = self._observation.controller()
        if controller is None or not self.is_up(controller):
            return False
        at = self._processes.brokers[controller].at
        assert at is not None
        with suppress(OSError):  # it is heard all the same, as soon as the process runs again
            self._run(ask((at.host, at.port), api, version, question, ANSWER_SECONDS_MAX))
        return True
