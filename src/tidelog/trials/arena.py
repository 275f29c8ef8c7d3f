"""The cluster of a long trial: real brokers, a keeper, and the network between them, all in our hands.

Brokers have the ids 1 to N and stand in the zones in turn. Their data is kept below the evidence: after the
trial it *is* the evidence of the replicas. If links are to be cut, everything that brokers say to each other,
to the keeper and to clients runs through a `Switchboard`; if not, it goes straight, which costs less.

Everything runs in an event loop in a thread of its own; the methods may be called from any thread and return
when their effect is there. Nothing outlives the trial: brokers end when their standard input does, those that
were paused and cannot are ended by whoever next looks at the evidence (`leftovers`).
"""

from __future__ import annotations

import asyncio
import atexit
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

from tidelog.broker.broker_process import BrokerProcess, Serving
from tidelog.broker.client import Client, ClientError
from tidelog.broker.cluster import ClusterError, obituary
from tidelog.broker.loading import settle
from tidelog.broker.nursery_client import Nursery, NurseryError
from tidelog.broker.properties import Property, write
from tidelog.broker.settings import Settings
from tidelog.core.types import TopicPartition
from tidelog.keeper.data_dir import KeeperStorageError
from tidelog.keeper.embedded import EmbeddedKeeper
from tidelog.lab.network import KEEPER, Node
from tidelog.trials.disks import Disks
from tidelog.trials.leftovers import ProcessList
from tidelog.trials.switchboard import Switchboard

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
_METRICS_SECONDS: Final = 10.0

_DEFAULTS: Final = {
    "controlled.shutdown.retry.backoff.ms": "200",
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
    network: bool = False
    """Whether traffic runs through a switchboard."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of every broker, by Kafka's names."""

    def zone_of(self, broker: int) -> str:
        return self.zones[(broker - 1) % len(self.zones)]

    def broker_ids(self) -> range:
        return range(1, self.brokers + 1)


class Arena:
    def __init__(self, plan: ArenaPlan, folder: Path, logs: Path) -> None:
        """`folder` is for the brokers' data, `logs` for what they say. Raises `SettingsError` if brokers
        could not run like that."""
        self.plan = plan
        self.folder = folder
        self._logs = logs
        self._log_files: dict[int, TextIO] = {}
        self._processes: dict[int, BrokerProcess] = {}
        self._serving: dict[int, Serving] = {}
        self._nursery: Nursery | None = None
        self._keeper: EmbeddedKeeper | None = None
        self._keeper_port = 0
        self._board: Switchboard | None = None
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
            if self.plan.network:
                self._board = Switchboard()
                for broker in self.plan.broker_ids():
                    self._board.add(broker, self.plan.zone_of(broker))
                self._board.add(KEEPER, "")
            self._nursery = Nursery()
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
        for at in self._serving.values():
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
            if self._board is not None:
                self._board.heal()
            self._run(self._stop_all())
            if self._board is not None:
                self._board.close()
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
        if self._nursery is not None:
            await self._nursery.close()
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
        return ",".join(f"{at.host}:{at.port}" for at in self._serving.values())

    def bootstrap_for(self, client: str, zone: str) -> str:
        """Where a client of the trial begins. It sees no other way to the brokers than its own."""
        if self._board is None:
            return self.bootstrap_servers
        self._board.add(client, zone)
        routes = [self._board.route(client, broker) for broker in self.plan.broker_ids()]
        return ",".join(f"{host}:{port}" for host, port in routes)

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
            for broker, at in self._serving.items()
        ]

    # ------------------------------------------------------------ one broker

    def start_broker(self, broker: int) -> None:
        """Start a broker, and wait until it serves. Raises `ClusterError`."""
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
        if self._board is None:
            raise ClusterError("power cannot be cut: the traffic of this trial goes straight")
        self._board.freeze(broker)
        try:
            synced = _recovery_points(self._serving[broker])
            self.kill(broker)
            Disks().lose_power(self._data_dir(broker), synced)
        finally:
            self._board.thaw(broker)

    def pause(self, broker: int) -> None:
        self._signal(broker, signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        self._signal(broker, signal.SIGCONT)

    def _signal(self, broker: int, sent: signal.Signals, *, ends: bool = False) -> None:
        if broker not in self.running:
            raise ClusterError(f"broker {broker} is not running")
        process = self._processes[broker]
        process.expected_to_end |= ends
        process.signal(sent)

    async def _ended(self, broker: int) -> None:
        await self._processes[broker].ended()

    async def _start_broker(self, broker: int) -> None:
        properties = self._data_dir(broker).with_suffix(".properties")
        write(properties, self._settings(broker).chosen(), f"Broker {broker} of a trial.")
        process = BrokerProcess(broker, properties, self._said, self._died)
        assert self._nursery is not None
        try:
            await process.start(self._nursery)
        except NurseryError as error:
            raise ClusterError(f"broker {broker} cannot be started: {error}") from None
        self._processes[broker] = process
        if self._listed is not None:
            self._listed.add(process.pid)
        try:
            async with asyncio.timeout(START_SECONDS):
                at = await process.serving()
        except EOFError:
            raise ClusterError(obituary(process)) from None
        except TimeoutError:
            raise ClusterError(f"broker {broker} does not serve after {START_SECONDS:g} s") from None
        self._serving[broker] = at
        if self._board is not None:
            await asyncio.to_thread(self._board.place, broker, at.host, at.port)

    def _data_dir(self, broker: int) -> Path:
        return self.folder / f"broker-{broker}"

    def _settings(self, broker: int) -> Settings:
        replicas = str(min(3, self.plan.brokers))
        at = self._serving.get(broker)
        values = {
            **_DEFAULTS,
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            **self.plan.settings,
            "tidelog.generation": self.plan.generation,
            "broker.id": str(broker),
            "broker.rack": self.plan.zone_of(broker),
            "listeners": f"PLAINTEXT://{HOST}:{0 if at is None else at.port}",
            "log.dirs": str(self._data_dir(broker)),
            "tidelog.keeper": f"embedded://{_address(self._keeper_for(broker))}",
        }
        if self._board is not None:
            others = (other for other in self.plan.broker_ids() if other != broker)
            routes = {other: self._board.route(broker, other) for other in others}
            values["tidelog.peer.routes"] = ",".join(f"{n}={_address(at)}" for n, at in routes.items())
        return settle(Property(name, value, "--set") for name, value in values.items()).settings

    def _keeper_for(self, broker: int) -> tuple[str, int]:
        return (HOST, self._keeper_port) if self._board is None else self._board.route(broker, KEEPER)

    # ------------------------------------------------------------ the keeper and the links

    def start_keeper(self) -> None:
        """Raises `ClusterError`. Once started it is always found at the same port."""
        if self._keeper is None:
            self._run(self._start_keeper())
            if self._board is not None:
                self._board.place(KEEPER, HOST, self._keeper_port)

    def stop_keeper(self) -> None:
        """As if its process ended: the port closes, sessions wait in its log."""
        if self._keeper is not None:
            self._run(self._keeper.stop())
            self._keeper = None

    async def _start_keeper(self) -> None:
        keeper = EmbeddedKeeper(self.folder / "keeper", host=HOST, port=self._keeper_port)
        try:
            await keeper.start()
        except (OSError, KeeperStorageError) as error:
            raise ClusterError(f"the keeper cannot start: {error}") from None
        self._keeper, self._keeper_port = keeper, keeper.port

    def cut(self, pairs: Iterable[tuple[Node, Node]]) -> None:
        if self._board is None:
            raise ClusterError("links cannot be cut: the traffic of this trial goes straight")
        self._board.cut(pairs)

    def mend(self, pairs: Iterable[tuple[Node, Node]] | None = None) -> None:
        if self._board is not None:
            self._board.heal(pairs)

    # ------------------------------------------------------------ what brokers say

    def _said(self, broker: int, line: str) -> None:
        with suppress(OSError, ValueError):
            if broker not in self._log_files:
                path = self._logs / f"broker-{broker}.log"
                self._log_files[broker] = path.open("a", encoding="utf-8", buffering=1)
            self._log_files[broker].write(f"{line}\n")

    def _died(self, process: BrokerProcess) -> None:
        if not process.expected_to_end:
            self.deaths.append(obituary(process))


def _address(at: tuple[str, int]) -> str:
    return f"{at[0]}:{at[1]}"


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
