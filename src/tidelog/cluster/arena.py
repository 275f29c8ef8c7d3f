"""The cluster of a long trial: real brokers, a keeper, and the network between them, all in our hands.

Brokers have the ids 1 to N and stand in the zones in turn. Their data is kept below the evidence: after the
trial it *is* the evidence of the replicas. How they are joined, and what can therefore be done to their
links, is the business of `networks`.

Everything runs in an event loop in a thread of its own; the methods may be called from any thread and return
when their effect is there. Nothing outlives the trial: brokers end when their standard input does, those that
were paused and cannot are ended by whoever next looks at the evidence (`leftovers`).
"""

from __future__ import annotations

import asyncio
import atexit
import os
import resource
import signal
import threading
import time
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tidelog.cluster.broker_process import BrokerProcess, Serving, exit_summary
from tidelog.cluster.disks import Disks
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.forkserver import ForkServerError, ForkServers
from tidelog.cluster.keepers import Keeper, KeeperInside, KeeperOutside
from tidelog.cluster.leftovers import ProcessList
from tidelog.cluster.network.networks import LOOPBACK, STRAIGHT, Address, ClusterNetwork, make_network
from tidelog.core.types import TopicPartition
from tidelog.faults.places import KEEPER, Node
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.settings.broker import Settings
from tidelog.settings.loading import settle
from tidelog.settings.properties import Property, write

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
_METRICS_SECONDS: Final = 10.0
_ROOM_FOR_NOTES: Final = 512 * 1024

_DEFAULTS: Final = {
    "controlled.shutdown.retry.backoff.ms": "200",
    "controller.socket.timeout.ms": "5000",
    "replica.fetch.backoff.ms": "200",
    "replica.fetch.wait.max.ms": "200",
    # A broker that is started while the keeper is away waits for it.
    "zookeeper.connection.timeout.ms": "30000",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "tidelog.metrics.port": "0",
}

Result = TypeVar("Result")


@dataclass(slots=True, frozen=True)
class ArenaPlan:
    brokers: int = 3
    zones: tuple[str, ...] = ("az1", "az2", "az3")
    generation: str = "epoch"
    network: str = STRAIGHT
    """How the processes are joined: `straight`, `relays` or `netns`."""
    slow_disks: bool = False
    """Whether disks can be made slow, for which every sync is asked about."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of every broker, by Kafka's names."""

    def zone_of(self, broker: int) -> str:
        return self.zones[(broker - 1) % len(self.zones)]

    def broker_ids(self) -> range:
        return range(1, self.brokers + 1)

    def zones_of_brokers(self) -> dict[int, str]:
        return {broker: self.zone_of(broker) for broker in self.broker_ids()}


class Arena:
    def __init__(self, plan: ArenaPlan, folder: Path, logs: Path) -> None:
        """`folder` is for the brokers' data, `logs` for what they say. Raises `SettingsError` if brokers
        could not run like that."""
        self.plan = plan
        self.folder = folder
        self._logs = logs
        self._log_files: dict[int, TextIO] = {}
        self._processes: dict[int, BrokerProcess] = {}
        self._places: dict[int, Serving] = {}
        self._nurseries: ForkServers | None = None
        self._keeper: Keeper | None = None
        self._keeper_at: Address = LOOPBACK, 0
        self._network: ClusterNetwork | None = None
        self._clock_offsets_ms: dict[int, int] = {}
        notes = plan.settings.get("tidelog.evidence.dir")
        self._notes = Path(notes) if notes else None
        self._listed: ProcessList | None = None
        self.deaths: list[str] = []
        """Brokers that ended although nobody had asked them to, in words."""
        for broker in plan.broker_ids():
            self._settings(broker)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # ------------------------------------------------------------ all of it

    def start(self) -> None:
        """Until every broker knows all others. Raises `ClusterError`, with nothing left running."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tidelog-arena", daemon=True)
        self._thread.start()
        atexit.register(self._kill_all)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._listed = ProcessList(self.folder)
            self._network = make_network(self.plan.network, self.plan.zones_of_brokers())
            self._nurseries = ForkServers(slow_disks=self.plan.slow_disks)
            for broker in self.plan.broker_ids():
                self._nurseries.open(self._network.command_in(broker))
            self._keeper = self._new_keeper()
            self.start_keeper()
            self._run(self._start_all())
            self._wait_until_ready()
        except OSError as error:
            self.stop()
            raise ClusterError(f"{self.folder}: {(error.strerror or str(error)).lower()}") from None
        except BaseException:
            self.stop()
            raise

    async def _start_all(self) -> None:
        starting = [self._start_broker(broker) for broker in self.plan.broker_ids()]
        failed = [e for e in await asyncio.gather(*starting, return_exceptions=True) if e is not None]
        if failed:
            raise failed[0]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        wanted = set(self.plan.broker_ids())
        for at in self._places.values():
            while not _known_brokers(at.host, at.port) >= wanted:
                if time.monotonic() > deadline:
                    raise ClusterError(f"the brokers do not know each other after {START_SECONDS:g} s")
                time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Stop the brokers in order, then the rest. What does not end in time is killed."""
        if self._loop is None or self._thread is None:
            return
        atexit.unregister(self._kill_all)
        try:
            if self._network is not None:
                self._network.mend()
            self._run(self._stop_all())
            if self._network is not None:
                self._network.close()
            self._run(self._loop.shutdown_default_executor())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None
            for file in self._log_files.values():
                file.close()
            if self._listed is not None:
                self._listed.remove()

    async def _stop_all(self) -> None:
        for process in self._processes.values():
            process.expected_to_end = True
            process.signal(signal.SIGCONT)  # a paused one could not end
            process.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._all_ended()
        except TimeoutError:
            self._kill_all()
            await self._all_ended()
        if self._nurseries is not None:
            await self._nurseries.close()
        if self._keeper is not None:
            await self._keeper.stop()

    async def _all_ended(self) -> None:
        await asyncio.gather(*(process.ended() for process in self._processes.values()))

    def _kill_all(self) -> None:
        for process in self._processes.values():
            process.expected_to_end = True
            process.signal(signal.SIGKILL)

    # ------------------------------------------------------------ where it is

    @property
    def bootstrap_servers(self) -> str:
        """The brokers themselves, whatever becomes of the network: for whoever watches the trial."""
        return ",".join(f"{at.host}:{at.port}" for at in self._places.values())

    def bootstrap_for(self, client: str, zone: str) -> str:
        """Where a client of the trial begins. It sees no other way to the brokers than its own."""
        assert self._network is not None
        self._network.add_client(client, zone)
        routes = [self._network.route(client, broker) or at[:2] for broker, at in self._places.items()]
        return ",".join(map(_address, routes))

    def command_in(self, client: str) -> list[str]:
        """Words to put before a command for it to run where a client stands."""
        assert self._network is not None
        return self._network.command_in(client)

    @property
    def running(self) -> dict[int, int]:
        """The brokers that run, and their processes."""
        return {number: process.pid for number, process in self._processes.items() if process.alive}

    def where(self) -> list[dict[str, Any]]:
        """The brokers, for `trial.json`."""
        return [
            {
                "id": broker,
                "zone": self.plan.zone_of(broker),
                "host": at.host,
                "port": at.port,
                "data_dir": str(self._data_dir(broker).relative_to(self.folder.parent)),
            }
            for broker, at in self._places.items()
        ]

    # ------------------------------------------------------------ one broker

    def start_broker(self, broker: int) -> None:
        """Start a broker, and wait until it is registered: where faults keep the controller from it, it does
        not serve yet. Raises `ClusterError`."""
        if broker in self.running:
            raise ClusterError(f"broker {broker} is running already")
        self._run(self._start_broker(broker))

    def stop_broker(self, broker: int) -> None:
        """A controlled shutdown, to its end."""
        self._signal(broker, signal.SIGTERM, ends=True)
        self._run(self._ended(broker))

    def kill(self, broker: int) -> None:
        """As a crash does: at once, with no chance to say goodbye."""
        self._signal(broker, signal.SIGKILL, ends=True)
        self._run(self._ended(broker))

    def lose_power(self, broker: int) -> None:
        """As if its machine went dark: what was written and not synced is gone. It is cut off first, so that
        nothing which it says after we have looked how far it had synced reaches anybody."""
        assert self._network is not None
        self._network.silence(broker)
        try:
            synced = _recovery_points(self._places[broker])
            self.kill(broker)
            Disks().lose_power(self._data_dir(broker), synced)
        finally:
            self._network.unsilence(broker)

    def pause(self, broker: int) -> None:
        self._signal(broker, signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        self._signal(broker, signal.SIGCONT)

    def set_clock(self, broker: int, offset_ms: int) -> None:
        """Its clock goes wrong by so much, or right again: from its next start on."""
        self._clock_offsets_ms[broker] = offset_ms

    def slow_disk(self, broker: int, ms: int) -> None:
        """Every sync takes so much longer; 0: no longer."""
        process = self._running(broker)
        assert self._nurseries is not None
        assert self._network is not None
        gate = self._nurseries.gate(self._network.command_in(broker))
        if gate is None:
            raise ClusterError("disks cannot be slow: nobody asked for that at the start")
        if not ms:
            gate.speed_up(process.pid)
            return
        try:
            gate.slow_down(process.pid, ms)
        except OSError as error:
            raise ClusterError(str(error)) from None

    def fill_disk(self, broker: int) -> None:
        """No log of a broker can grow, until `free_disk` or its next start. What it notes for the audit can,
        for that is not on its disk, so to speak."""
        process = self._running(broker)
        notes = _sizes(self._notes, f"*-{broker}-*") if self._notes is not None else []
        logs = [size for size in _sizes(self._data_dir(broker), "*/*.log") if size]
        self._limit_files(process, max(min(logs, default=0), max(notes, default=0) + _ROOM_FOR_NOTES))

    def free_disk(self, broker: int) -> None:
        self._limit_files(self._running(broker), None)

    def _limit_files(self, process: BrokerProcess, size: int | None) -> None:
        try:
            _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most if size is None else size, most))
        except (OSError, ValueError, AttributeError) as error:
            raise ClusterError(f"the files of broker {process.id} cannot be limited: {error}") from None

    def _running(self, broker: int) -> BrokerProcess:
        if broker not in self.running:
            raise ClusterError(f"broker {broker} is not running")
        return self._processes[broker]

    def _signal(self, broker: int, sent: signal.Signals, *, ends: bool = False) -> None:
        process = self._running(broker)
        process.expected_to_end |= ends
        process.signal(sent)

    async def _ended(self, broker: int) -> None:
        await self._processes[broker].ended()

    async def _start_broker(self, broker: int) -> None:
        properties = self._data_dir(broker).with_suffix(".properties")
        write(properties, self._settings(broker).chosen(), f"Broker {broker} of a trial.")
        process = BrokerProcess(broker, properties, self._said, self._died)
        assert self._nurseries is not None
        assert self._network is not None
        try:
            await process.start(self._nurseries.open(self._network.command_in(broker)))
        except ForkServerError as error:
            raise ClusterError(f"broker {broker} cannot be started: {error}") from None
        self._processes[broker] = process
        if self._listed is not None:
            self._listed.add(process.pid)
        try:
            async with asyncio.timeout(START_SECONDS):
                at = await process.registered()
        except EOFError:
            raise ClusterError(exit_summary(process)) from None
        except TimeoutError:
            raise ClusterError(f"broker {broker} is not registered after {START_SECONDS:g} s") from None
        self._places[broker] = at
        await asyncio.to_thread(self._network.place, broker, (at.host, at.port))

    def _data_dir(self, broker: int) -> Path:
        return self.folder / f"broker-{broker}"

    def _settings(self, broker: int) -> Settings:
        replicas = str(min(3, self.plan.brokers))
        listen = (LOOPBACK, 0) if self._network is None else self._network.listen(broker)
        values = {
            **_DEFAULTS,
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": "1",  # consumers only ask for a coordinator here
            **self.plan.settings,
            "tidelog.generation": self.plan.generation,
            "broker.id": str(broker),
            "broker.rack": self.plan.zone_of(broker),
            "listeners": f"PLAINTEXT://{_address(listen)}",
            "log.dirs": str(self._data_dir(broker)),
            "tidelog.clock.offset.ms": str(self._clock_offsets_ms.get(broker, 0)),
            "tidelog.keeper": f"embedded://{_address(self._way(broker, KEEPER) or self._keeper_at)}",
        }
        others = (other for other in self.plan.broker_ids() if other != broker)
        routes = {other: self._way(broker, other) for other in others}
        values["tidelog.peer.routes"] = ",".join(f"{n}={_address(at)}" for n, at in routes.items() if at)
        return settle(Property(name, value, "--set") for name, value in values.items()).settings

    def _way(self, source: Node, target: Node) -> Address | None:
        return None if self._network is None else self._network.route(source, target)

    # ------------------------------------------------------------ the keeper and the links

    def _new_keeper(self) -> Keeper:
        assert self._network is not None
        folder, elsewhere = self.folder / "keeper", self._network.command_in(KEEPER)
        at = self._network.route(KEEPER, KEEPER) if elsewhere else None
        return KeeperInside(folder, LOOPBACK) if at is None else KeeperOutside(folder, at, elsewhere)

    def start_keeper(self) -> None:
        """Raises `ClusterError`. Once started it is always found at the same place."""
        assert self._keeper is not None
        assert self._network is not None
        self._keeper_at = self._run(self._keeper.start())
        self._network.place(KEEPER, self._keeper_at)

    def stop_keeper(self) -> None:
        assert self._keeper is not None
        self._run(self._keeper.stop())

    def cut(self, pairs: Iterable[tuple[Node, Node]]) -> None:
        assert self._network is not None
        self._network.cut(pairs)

    def delay(self, pairs: Iterable[tuple[Node, Node]], ms: int) -> None:
        assert self._network is not None
        self._network.delay(pairs, ms)

    def hold(self, pairs: Iterable[tuple[Node, Node]]) -> None:
        assert self._network is not None
        self._network.hold(pairs)

    def release(self, pairs: Iterable[tuple[Node, Node]]) -> None:
        assert self._network is not None
        self._network.release(pairs)

    def mend(self, pairs: Iterable[tuple[Node, Node]] | None = None) -> None:
        if self._network is not None:
            self._network.mend(pairs)

    # ------------------------------------------------------------ what brokers say

    def _said(self, broker: int, line: str) -> None:
        with suppress(OSError, ValueError):
            if broker not in self._log_files:
                path = self._logs / f"broker-{broker}.log"
                self._log_files[broker] = path.open("a", encoding="utf-8", buffering=1)
            self._log_files[broker].write(f"{line}\n")

    def _died(self, process: BrokerProcess) -> None:
        if not process.expected_to_end:
            self.deaths.append(exit_summary(process))


def _address(at: Address) -> str:
    return f"{at[0]}:{at[1]}"


def _sizes(folder: Path, pattern: str) -> list[int]:
    return [os.stat(file).st_size for file in folder.glob(pattern)]


def _recovery_points(at: Serving) -> dict[TopicPartition, int]:
    """How far each log of a broker is synced, as it says itself; nothing is, where it does not answer."""
    try:
        with urlopen(f"http://{at.host}:{at.metrics_port}/metrics", timeout=_METRICS_SECONDS) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return {
        TopicPartition(sample.labels["topic"], int(sample.labels["partition"])): int(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "tidelog_partition_recovery_point"
    }


def _known_brokers(host: str, port: int) -> set[int]:
    """The brokers that one of them knows of; none while it knows no controller, or does not answer."""
    try:
        with Client(host, port) as client:
            answer = client.metadata([])
    except ClientError:
        return set()
    known = {each.node_id for each in answer.brokers}
    return known if answer.controller_id in known else set()
