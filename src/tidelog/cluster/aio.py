"""A cluster on this machine: broker processes, and the keeper inside the process that runs them.

    cluster = Cluster(data_dir, brokers=3, port=0)
    await cluster.start()
    await cluster.ready()
    …                        # cluster.bootstrap_servers, cluster.kill(2), await cluster.start_broker(2)
    await cluster.stop()

Below `data_dir`: `broker-1` … with the logs, `keeper`, a properties file for each broker and `cluster.json`
(`directory`). Brokers have the ids 1 to N and the ports `port`, `port + 1`, …, or any free ones if
`port` is 0. A broker that ends on its own is reported and left alone: deciding what that means is the
business of whoever watches. Brokers are forked from a process that has loaded their code (`nursery`).

The keeper needs the event loop, so nobody may block it; `cluster` is for programs that must.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from tidelog.cluster.broker_process import BrokerProcess, exit_summary
from tidelog.cluster.directory import (
    STATUS_FILE,
    AlreadyRunning,
    BrokerStatus,
    ClusterStatus,
    DirectoryLock,
    Ending,
    broker_folders,
    running_brokers,
)
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.forkserver import ForkServer, ForkServerError
from tidelog.cluster.ports import PortTaken, require_free
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.keeper.embedded.data_dir import KeeperStorageError
from tidelog.keeper.embedded.server import EmbeddedKeeper
from tidelog.settings.broker import Settings
from tidelog.settings.kinds import Endpoint
from tidelog.settings.loading import settle
from tidelog.settings.properties import Property, write
from tidelog.settings.table import SettingsError, replace

HOST = "127.0.0.1"
EMBEDDED = "embedded"

# What a cluster on one machine wants other than Kafka's defaults. With sessions of four seconds, the shortest
# that a ZooKeeper grants unless told otherwise, a dead broker's partitions are soon led by others. A
# controlled shutdown in which no controller answers ends before `stop` loses its patience.
# Fewer partitions of positions: a handful of brokers has no use for 50, and followers name each in every
# fetch.
_DEFAULTS = {
    "zookeeper.session.timeout.ms": "4000",
    "controlled.shutdown.retry.backoff.ms": "200",
    "controller.socket.timeout.ms": "5000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "10",
    "tidelog.metrics.port": "0",
}
_REPLICATION = ("default.replication.factor", "offsets.topic.replication.factor")
OWN_NAMES = ("broker.id", "node.id", "listeners", "advertised.listeners", "log.dirs", "log.dir")
"""Settings in which brokers differ: nobody can give one value for all."""
KEEPER_NAMES = ("zookeeper.connect", "tidelog.keeper")

_KEEPER_FOLDER = "keeper"

_START_SECONDS = 60.0
_READY_SECONDS = 60.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.02


class AsyncCluster:
    def __init__(
        self,
        data_dir: Path,
        *,
        brokers: int = 3,
        host: str = HOST,
        port: int = 9092,
        generation: str = "epoch",
        keeper: str = EMBEDDED,
        overrides: Mapping[str, str] | None = None,
        on_line: Callable[[int, str], None] = lambda number, line: None,
        on_death: Callable[[BrokerProcess], None] = lambda process: None,
    ) -> None:
        """`on_line` gets what brokers log, `on_death` a broker that ended without being told to.

        Raises `SettingsError` if the brokers could not run like that.
        """
        self.data_dir = data_dir.absolute()
        self._host = host
        self._keeper_url = "" if keeper == EMBEDDED else keeper
        self._generation = generation
        self._overrides = dict(overrides or {})
        self._on_line = on_line
        self._on_death = on_death
        self._lock = DirectoryLock(self.data_dir)
        self._keeper: EmbeddedKeeper | None = None
        self._nursery: ForkServer | None = None
        self._processes: dict[int, BrokerProcess] = {}
        self._by_hand: Ending | None = None
        if brokers < 1:
            raise SettingsError(f"a cluster of {brokers} brokers: give at least 1")
        for name in (*OWN_NAMES, *KEEPER_NAMES):
            if name in self._overrides:
                raise SettingsError(f"{name}: each broker of a cluster gets its own, leave it out")
        self.status = ClusterStatus(
            0,
            self._keeper_url,
            generation,
            [self._planned(number, port and port + number - 1) for number in range(1, brokers + 1)],
        )
        if port and port + brokers - 1 > 65535:
            raise SettingsError(f"port {port} leaves no room for {brokers} brokers: choose a smaller one")
        self.status.generation = self._settings(self.status.brokers[0]).tidelog_generation

    def _planned(self, number: int, port: int) -> BrokerStatus:
        folder = self.data_dir / f"broker-{number}"
        return BrokerStatus(number, self._host, port, str(folder), f"{folder}.properties")

    # ------------------------------------------------------------ what it is

    @property
    def bootstrap_servers(self) -> str:
        return self.status.bootstrap_servers

    @property
    def pids(self) -> dict[int, int]:
        """The brokers that run, and their processes."""
        return {number: process.pid for number, process in self._processes.items() if process.alive}

    def broker(self, number: int) -> BrokerStatus:
        for broker in self.status.brokers:
            if broker.id == number:
                return broker
        raise ClusterError(f"there is no broker {number}: the cluster has {len(self.status.brokers)}")

    def left_alone(self) -> list[int]:
        """Brokers that have data here from before and do not belong to the cluster now."""
        return sorted(broker_folders(self.data_dir).keys() - {broker.id for broker in self.status.brokers})

    # ------------------------------------------------------------ all of them

    async def start(self) -> None:
        """Until every broker serves. Raises `ClusterError`, with nothing left running, if one cannot."""
        self.occupy()
        try:
            self._nursery = ForkServer()  # which loads the brokers' code while the keeper starts
            await self._start_keeper()
            async with asyncio.timeout(_START_SECONDS):
                async with asyncio.TaskGroup() as starting:
                    for broker in self.status.brokers:
                        starting.create_task(self.start_broker(broker.id))
        except BaseException as error:
            await self.stop()
            if isinstance(error, BaseExceptionGroup):
                raise error.exceptions[0] from None
            if isinstance(error, TimeoutError):
                raise ClusterError(f"the brokers do not serve after {_START_SECONDS:g} s") from None
            raise

    def occupy(self, *, empty: bool = False) -> None:
        """Take the directory and make sure of the ports; from here on `tidelog down` finds the cluster.

        `start` does it, unless it was done before. `empty` removes what an earlier cluster left there.
        Raises `ClusterError`.
        """
        if self._lock.held:
            return
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except AlreadyRunning as error:
            raise ClusterError(f"{error}: {self._advice}") from None
        except FileExistsError:
            raise ClusterError(f"{self.data_dir}: this is a file, not a folder") from None
        except OSError as error:
            raise ClusterError(f"{self.data_dir}: {(error.strerror or str(error)).lower()}") from None
        try:
            if left := running_brokers(self.data_dir):
                raise ClusterError(f"{left[0]} runs in {self.data_dir} already: {self._advice}")
            self._require_free_ports()
            if empty:
                self._remove_earlier()
            self._tell()
        except BaseException:
            self._lock.release()
            raise

    @property
    def _advice(self) -> str:
        return f"stop it with tidelog down --data-dir {self.data_dir}"

    def _remove_earlier(self) -> None:
        """Nothing but what a cluster makes: the directory may hold the log of the one that starts now."""
        for path in self.data_dir.glob("broker-*.properties"):
            path.unlink()
        for folder in (*broker_folders(self.data_dir).values(), self.data_dir / _KEEPER_FOLDER):
            shutil.rmtree(folder, ignore_errors=True)

    def _require_free_ports(self) -> None:
        try:
            require_free(self._host, (broker.port for broker in self.status.brokers if broker.port))
        except PortTaken as error:
            raise ClusterError(f"{error}: stop that, or choose another port") from None
        except OSError as error:
            raise ClusterError(
                f"cannot listen on {self._host}: {(error.strerror or str(error)).lower()}"
            ) from None

    async def _start_keeper(self) -> None:
        if self._keeper_url:
            return
        self._keeper = EmbeddedKeeper(self.data_dir / _KEEPER_FOLDER, host=self._host)
        try:
            await self._keeper.start()
        except (OSError, KeeperStorageError) as error:
            raise ClusterError(f"the keeper cannot start: {error}") from None
        self.status.keeper = f"embedded://{Endpoint(self._host, self._keeper.port)}"

    async def ready(self) -> None:
        """Until every broker that runs knows all the others, and that one of them is the controller."""
        knows: dict[int, set[int]] = {}
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await asyncio.gather(*(self._learns_of_all(number, knows) for number in self.pids))
        except TimeoutError:
            ignorant = min(number for number in self.pids if not knows.get(number, set()) >= self.pids.keys())
            known = ", ".join(map(str, sorted(knows.get(ignorant, ())))) or "no controller"
            raise ClusterError(f"after {_READY_SECONDS:g} s broker {ignorant} knows {known}") from None
        self.status.ready = True
        self._tell()

    async def _learns_of_all(self, number: int, knows: dict[int, set[int]]) -> None:
        broker = self.broker(number)
        while number in self.pids:
            knows[number] = await asyncio.to_thread(_known_brokers, broker.host, broker.port)
            if knows[number] >= self.pids.keys():
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def keeper_failure(self) -> None:
        """Raises `ClusterError` when the embedded keeper can go on no longer; until then, waits."""
        try:
            if self._keeper is not None:
                await self._keeper.wait()
        except OSError as error:
            raise ClusterError(f"the keeper cannot write its log: {error}") from None
        await asyncio.get_running_loop().create_future()

    async def stop(self, *, remove_data: bool = False) -> int:
        """Stop the brokers in order, then the keeper. What does not end in time is killed. Returns how many
        brokers there were, those included that were started by hand: they cannot go on without the rest."""
        ours = self.pids.values()
        if self._lock.held:  # else the brokers there are another cluster's
            self._by_hand = Ending(self.data_dir, spared=ours)
        for process in self._processes.values():
            process.expected_to_end = True
            process.signal(signal.SIGCONT)  # a paused one could not end
            process.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await asyncio.gather(self._all_ended(), self._by_hand_ended())
        except TimeoutError:
            self.kill_all()
            await self._all_ended()
        if self._nursery is not None:
            await self._nursery.close()
            self._nursery = None
        if self._keeper is not None:
            await self._keeper.stop()
            self._keeper = None
        if self._lock.held:  # else the file is another cluster's
            (self.data_dir / STATUS_FILE).unlink(missing_ok=True)
            if remove_data:
                shutil.rmtree(self.data_dir, ignore_errors=True)
            self._lock.release()
        by_hand, self._by_hand = self._by_hand, None
        return len(ours) + (len(by_hand.asked) if by_hand is not None else 0)

    async def _all_ended(self) -> None:
        await asyncio.gather(*(process.ended() for process in self._processes.values()))

    async def _by_hand_ended(self) -> None:
        while self._by_hand is not None and self._by_hand.ask():
            await asyncio.sleep(_POLL_SECONDS)

    def kill_all(self) -> None:
        for process in self._processes.values():
            process.expected_to_end = True
            process.signal(signal.SIGKILL)
        if self._by_hand is not None:
            self._by_hand.kill()

    # ------------------------------------------------------------ one of them

    async def start_broker(self, number: int) -> None:
        """Start a broker, for the first time or again where it was, and wait until it serves."""
        broker = self.broker(number)
        if number in self.pids:
            raise ClusterError(f"broker {number} is running already")
        self._write_properties(broker)
        process = BrokerProcess(number, Path(broker.properties), self._on_line, self._ended)
        self._processes[number] = process
        try:
            await process.start(await self._living_nursery())
        except ForkServerError as error:
            raise ClusterError(f"broker {number} cannot be started: {error}") from None
        broker.pid, broker.state = process.pid, "starting"
        try:
            serving = await process.serving()
        except EOFError:
            raise ClusterError(exit_summary(process)) from None
        broker.host, broker.port, broker.metrics_port = serving
        broker.state = "serving"
        self._write_properties(broker)  # with its ports: started again by hand, it is where it was
        self._tell()

    async def _living_nursery(self) -> ForkServer:
        nursery = self._nursery
        if nursery is None:
            raise ClusterError("the cluster is not running")
        if not nursery.alive:  # its brokers live on
            await nursery.close()
            if self._nursery is nursery:
                self._nursery = ForkServer()
            return await self._living_nursery()
        return nursery

    def kill(self, number: int) -> None:
        """As a crash does: at once, with no chance to say goodbye."""
        self._signal(number, signal.SIGKILL, expected=True)

    def pause(self, number: int) -> None:
        self._signal(number, signal.SIGSTOP)

    def resume(self, number: int) -> None:
        self._signal(number, signal.SIGCONT)

    async def stop_broker(self, number: int) -> None:
        """A controlled shutdown of one broker."""
        self._signal(number, signal.SIGTERM, expected=True)
        await self._processes[number].ended()

    async def ended(self, number: int) -> None:
        """Until a broker that was killed, or ends by itself, is gone."""
        if number in self._processes:
            await self._processes[number].ended()

    def _signal(self, number: int, sent: signal.Signals, *, expected: bool = False) -> None:
        self.broker(number)
        if number not in self.pids:
            raise ClusterError(f"broker {number} is not running")
        process = self._processes[number]
        process.expected_to_end |= expected
        process.signal(sent)

    def _ended(self, process: BrokerProcess) -> None:
        broker = self.broker(process.id)
        served = broker.state == "serving"
        broker.state = "ended"
        if self.status.pid:
            self._tell()
        if served and not process.expected_to_end:
            self._on_death(process)

    # ------------------------------------------------------------ settings

    def _settings(self, broker: BrokerStatus) -> Settings:
        replicas = str(min(3, len(self.status.brokers)))
        values = _DEFAULTS | dict.fromkeys(_REPLICATION, replicas) | {"tidelog.generation": self._generation}
        values |= self._overrides
        values |= {
            "broker.id": str(broker.id),
            "listeners": f"PLAINTEXT://{Endpoint(broker.host, broker.port)}",
            "log.dirs": broker.data_dir,
            "tidelog.keeper": self.status.keeper or f"embedded://{Endpoint(self._host, 0)}",
        }
        settings = settle(Property(name, value, "overrides") for name, value in values.items()).settings
        return self._with_metrics_port(settings, broker)

    def _write_properties(self, broker: BrokerStatus) -> None:
        write(
            Path(broker.properties),
            self._settings(broker).chosen(),
            f"Broker {broker.id} of the cluster in {self.data_dir}, written when it is started.",
        )

    def _with_metrics_port(self, settings: Settings, broker: BrokerStatus) -> Settings:
        """Each broker its own: the one it had, or the chosen one and those after it."""
        port = settings.tidelog_metrics_port
        if port > 0:
            return replace(settings, tidelog_metrics_port=port + broker.id - 1)
        if port == 0 and broker.metrics_port > 0:
            return replace(settings, tidelog_metrics_port=broker.metrics_port)
        return settings

    def _tell(self) -> None:
        self.status.pid = os.getpid()
        self.status.write(self.data_dir)


def _known_brokers(host: str, port: int) -> set[int]:
    """The brokers that one of them knows of; none while it knows no controller, or does not answer."""
    try:
        with Client(host, port) as client:
            answer = client.metadata([])
    except ClientError:
        return set()
    known = {each.node_id for each in answer.brokers}
    return known if answer.controller_id in known else set()
