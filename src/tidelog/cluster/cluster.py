"""A cluster for programs that block: tests, notebooks, trials, scripts with an ordinary Kafka client.

    with Cluster(brokers=3, settings={"min.insync.replicas": 2}) as kafka:
        kafka.topic("orders", partitions=3)
        producer = Producer(kafka.client_config("confluent-kafka"))
        …
        with kafka.leader_of("orders", 0).kill():
            …

A `Supervisor` with its event loop in a thread of its own. Every method may be called from any thread and
returns when its effect is there. Faults are described in `active_fault`; each can be used in a `with` block.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tidelog.cluster.active_fault import ActiveFault, ActiveFaults, Side, links, node_pairs
from tidelog.cluster.aio import Supervisor
from tidelog.cluster.answers import ANSWER_SECONDS, InSync
from tidelog.cluster.broker_handle import BrokerHandle, broker_id, broker_ids, milliseconds
from tidelog.cluster.brokers import OnDeath, OnLine, ignore
from tidelog.cluster.client_config import client_config
from tidelog.cluster.directory import BrokerStatus, ClusterStatus
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.network.networks import ClusterNetwork
from tidelog.cluster.spec import ClusterSpec
from tidelog.cluster.topics import Replicas, create_topic
from tidelog.cluster.waits import Waits
from tidelog.faults.places import KEEPER

Result = TypeVar("Result")


class Cluster(Waits):
    def __init__(
        self,
        spec: ClusterSpec | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        keep: bool = False,
        on_line: OnLine = ignore,
        on_death: OnDeath = ignore,
        **given: Any,
    ) -> None:
        """A cluster as `spec` says; or, without one, as `ClusterSpec.for_tests` makes it of what is given:
        `brokers`, `generation`, `settings`, `zones`, `port`, `network`, `keeper`, `slow_disks`. In that every
        fault can be done, and time-outs are short.

        Without a `data_dir` data is in a temporary directory, removed at the end unless `keep`. `on_line` and
        `on_death` are called in the cluster's thread, with what brokers log and with a broker that ended
        although it was not asked to. Raises `Refusal` for what cannot be.
        """
        if spec is not None and given:
            raise ClusterError(f"give either a ClusterSpec or {', '.join(given)}")
        chosen = spec if spec is not None else ClusterSpec.for_tests(**given)
        self.supervisor = Supervisor(chosen, data_dir, keep=keep, on_line=on_line, on_death=on_death)
        self.client_zones: dict[str, str] = {}
        """Clients that have a way of their own to the brokers (`bootstrap_for`), and their zones."""
        self.faults = ActiveFaults(self)
        super().__init__(lambda: self.supervisor.reachable_servers)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for work of the supervisor, in its thread."""
        if self._loop is None:
            work.close()
            raise ClusterError("the cluster is not running")
        doing = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return doing.result()
        finally:
            doing.cancel()  # if the caller was interrupted

    # ------------------------------------------------------------ all of it

    def start(self) -> None:
        """Until the cluster is ready. Raises `ClusterError`, with nothing left running."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tidelog-cluster", daemon=True)
        self._thread.start()
        try:
            self.run(self.supervisor.start())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._loop is None or self._thread is None:
            return
        try:
            self.run(self.supervisor.stop())
            self.run(self._loop.shutdown_default_executor())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def ready(self) -> None:
        """Until every broker that runs knows all the others."""
        self.run(self.supervisor.ready())

    def heal(self) -> list[str]:
        """Undo everything: all links work, all brokers run. What could not be undone, in words."""
        trouble = self.run(self.supervisor.heal())
        self.faults.all_ended()
        return trouble

    # ------------------------------------------------------------ what it is

    @property
    def spec(self) -> ClusterSpec:
        return self.supervisor.spec

    @property
    def data_dir(self) -> Path:
        return self.supervisor.data_dir

    @property
    def status(self) -> ClusterStatus:
        return self.supervisor.status

    @property
    def brokers(self) -> list[BrokerStatus]:
        return self.supervisor.status.brokers

    def broker(self, number: int | str) -> BrokerHandle:
        """A broker to do things to. Raises `ClusterError` if there is none with this id."""
        return BrokerHandle(self, self.supervisor.broker(broker_id(number)).id)

    @property
    def pids(self) -> dict[int, int]:
        """The brokers that run, and their processes."""
        return self.supervisor.pids

    @property
    def network(self) -> ClusterNetwork:
        """The links between the processes, which can be cut."""
        return self.supervisor.network

    @property
    def bootstrap_servers(self) -> str:
        """The brokers themselves, whatever becomes of the network."""
        return self.supervisor.bootstrap_servers

    def bootstrap_for(self, client: str, zone: str = "") -> str:
        """Where a client of this name begins. It finds no other way to the brokers than its own, which can be
        cut: `cut("app", 1)`."""
        self.client_zones[client] = zone
        return self.supervisor.bootstrap_for(client, zone)

    def client_config(self, library: str, client: str = "", zone: str = "") -> dict[str, Any]:
        """The settings with which a client of `confluent-kafka`, `kafka-python` or `aiokafka` finds the
        cluster. With a name for the client, through links of its own."""
        servers = self.bootstrap_for(client, zone) if client else self.bootstrap_servers
        return client_config(library, servers)

    # ------------------------------------------------------------ topics, and what brokers say of them

    def topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: Replicas = None,
        config: Mapping[str, Any] | None = None,
    ) -> str:
        """Create a topic; returns its name when every broker that runs knows its leaders. `replicas`: how
        many, or which brokers have each partition, its leader first: `[[1, 2, 3], [2, 3, 1]]`."""
        create_topic(self, name, partitions, replicas, config)
        return name

    @property
    def controller(self) -> BrokerHandle:
        """The broker that all brokers which can be asked hold to be the controller."""
        return self.wait_controller()

    def wait_controller(self, *, timeout_s: float = ANSWER_SECONDS) -> BrokerHandle:
        return BrokerHandle(self, self.run(self.supervisor.controller(timeout_s=timeout_s)))

    def leader_of(self, topic: str, partition: int = 0, *, timeout_s: float = ANSWER_SECONDS) -> BrokerHandle:
        """The broker that all brokers which can be asked hold to be the leader of a partition."""
        leader = self.run(self.supervisor.leader_of(topic, partition, timeout_s=timeout_s))
        return BrokerHandle(self, leader)

    def isr(self, topic: str, partition: int = 0, *, timeout_s: float = ANSWER_SECONDS) -> frozenset[int]:
        """The brokers that the leader of a partition holds to be in sync."""
        return self.run(self.supervisor.isr(topic, partition, timeout_s=timeout_s))

    def wait_isr(self, topic: str, wanted: InSync, *, timeout_s: float = ANSWER_SECONDS) -> None:
        """Until all brokers that answer know this many replicas, or these brokers, to be in sync for each
        partition of a topic: `wait_isr("orders", 3)`, `wait_isr("orders", {1, 2})`."""
        self.run(self.supervisor.wait_isr(topic, wanted, timeout_s=timeout_s))

    def wait_in_sync(self, *, timeout_s: float = ANSWER_SECONDS) -> None:
        """Until every broker runs and knows all replicas of all topics to be in sync."""
        self.run(self.supervisor.wait_in_sync(timeout_s=timeout_s))

    # ------------------------------------------------------------ faults

    def inject(self, kind: str, *targets: object) -> ActiveFault:
        """Any fault of a trial, by its name there, with targets as a schedule writes them."""
        return self.faults.inject(kind, targets)

    def kill(self, *brokers: int) -> ActiveFault:
        """As a crash does; returns when the processes are gone."""
        return self.inject("kill", *broker_ids("kill", brokers))

    def power_loss(self, *brokers: int) -> ActiveFault:
        """As if their machines went dark: what was written and not synced is gone."""
        return self.inject("power", *broker_ids("power_loss", brokers))

    def pause(self, number: int) -> ActiveFault:
        """It does nothing until it is healed, as in a long garbage collection."""
        return self.inject("pause", broker_id(number))

    def stop_broker(self, number: int) -> ActiveFault:
        """A controlled shutdown, to its end."""
        return self.inject("restart", broker_id(number))

    def cut(self, a: Side, b: Side, *, one_way: bool = False) -> ActiveFault:
        """Nothing passes between two sides; `one_way`: nothing from a to b."""
        return self.inject("cut", *links(a, b, one_way=one_way))

    def isolate(self, place: int | str) -> ActiveFault:
        """Cut off a zone with its brokers and clients, or one broker, from the others and the keeper."""
        if isinstance(place, str):
            if place not in self.spec.zones:
                raise ClusterError(f"there is no zone {place}: choose one of {', '.join(self.spec.zones)}")
            return self.inject("zone", place)
        others = [number for number in self.spec.broker_ids() if number != place]
        return self.cut(place, [*others, KEEPER])

    def delay(self, a: Side, b: Side, ms: int, *, one_way: bool = False) -> ActiveFault:
        """What passes between two sides takes so much longer."""
        return self.inject("delay", *links(a, b, one_way=one_way), f"{milliseconds(ms)}ms")

    def hold_replication(self, follower: Side, leader: Side) -> ActiveFault:
        """The fetches of a follower wait on their way to a leader."""
        return self.inject("hold", *links(follower, leader, one_way=True))

    def reset(self, a: Side, b: Side) -> ActiveFault:
        """Connections between two sides break; new ones can be made at once."""
        return self.faults.reset(node_pairs(a, b))

    def disk_full(self, number: int) -> ActiveFault:
        """No log of a broker can grow, until it is healed or started again."""
        return self.inject("full", broker_id(number))

    def slow_fsync(self, number: int, ms: int) -> ActiveFault:
        """Every sync takes so much longer."""
        return self.inject("slow", broker_id(number), f"{milliseconds(ms)}ms")

    def wrong_clock(self, number: int, ms: int) -> ActiveFault:
        """Restart a broker with a clock that is wrong by so much."""
        return self.inject("clock", broker_id(number), f"{int(ms):+}ms")

    def stop_keeper(self) -> ActiveFault:
        """As if its process ended: the port closes, sessions wait in its log."""
        return self.inject("keeper", KEEPER)

    def elect_preferred(self) -> ActiveFault:
        """Every partition gets its preferred leader, if that is in sync."""
        return self.inject("elect")

    # ------------------------------------------------------------ repairs

    def start_broker(self, number: int) -> None:
        """Start a broker again where it was."""
        self.run(self.supervisor.start_broker(broker_id(number)))

    def resume(self, number: int) -> None:
        self.run(self.supervisor.resume(broker_id(number)))

    def start_keeper(self) -> None:
        self.run(self.supervisor.start_keeper())
