"""The one supervisor: broker processes, their keeper and the network between them, from start to end.

    supervisor = Supervisor(ClusterSpec(brokers=3), data_dir)
    await supervisor.start()
    …                  # supervisor.bootstrap_servers, await supervisor.kill(2)
    await supervisor.stop()

Below `data_dir`: `broker-1` … with the logs, `keeper`, a properties file for each broker and `cluster.json`
(`directory`). A broker that ends on its own is reported and left alone: what that means is for the caller to
decide. Brokers are forked from a process that has loaded their code (`forkserver`). The embedded keeper runs
in this event loop, unless the network gives it a machine of its own; so the loop must not be blocked.
`cluster` has the same for programs that block, `async_cluster` for those that do not.

What is done to brokers, disks and clocks is remembered until it is undone: `heal` undoes all of it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from tidelog.cluster.answers import Answers
from tidelog.cluster.broker_process import BrokerProcess, BrokerState
from tidelog.cluster.broker_settings import broker_settings
from tidelog.cluster.brokers import Brokers, OnDeath, OnLine, ignore
from tidelog.cluster.directory import (
    KEEPER_FOLDER,
    STATUS_FILE,
    AlreadyRunning,
    BrokerStatus,
    ClusterStatus,
    DirectoryLock,
    Ending,
    broker_folders,
    remove_data,
    remove_leftovers,
    running_brokers,
    temporary_dir,
)
from tidelog.cluster.disks import Disks, fill_disk, free_disk
from tidelog.cluster.errors import ClusterError, NotPossibleHere
from tidelog.cluster.forkserver import ForkServers
from tidelog.cluster.keepers import KeeperInside, KeeperOutside, KeeperRunner
from tidelog.cluster.network.networks import LOOPBACK, Address, ClusterNetwork, make_network
from tidelog.cluster.observe import create_offsets_topic, known_brokers, recovery_points
from tidelog.cluster.ports import PortTaken, require_free
from tidelog.cluster.rules import Rules
from tidelog.cluster.spec import EMBEDDED, NETNS, ClusterSpec, Profile
from tidelog.errors import reason
from tidelog.extras import require
from tidelog.faults.places import KEEPER
from tidelog.settings.broker import Settings
from tidelog.settings.kinds import Endpoint
from tidelog.settings.properties import write

_STARTED = {
    Profile.UP: BrokerState.SERVING,
    Profile.TRIAL: BrokerState.REGISTERED,
    Profile.TEST: BrokerState.REGISTERED,
}
_WITH_GROUPS = (Profile.UP, Profile.TEST)
"""Clusters whose clients use groups."""

_READY_SECONDS = 60.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.02


class Supervisor(Answers):
    def __init__(
        self,
        spec: ClusterSpec | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        keep: bool = False,
        on_line: OnLine = ignore,
        on_death: OnDeath = ignore,
    ) -> None:
        """Without a `data_dir` data is kept in a temporary directory until `stop`, or for good if it is to be
        kept. `on_line` gets what brokers log, `on_death` a broker that ended although it was not asked to.

        Raises `SettingsError` if brokers could not run like that.
        """
        self.spec = spec = spec or ClusterSpec()
        if spec.keeper != EMBEDDED:
            require("zookeeper", f"keeper={spec.keeper}")
        self._temporary = data_dir is None and not keep
        self.data_dir = temporary_dir(keep=keep) if data_dir is None else Path(data_dir).absolute()
        self._on_death = on_death
        super().__init__(self._reachable, spec.broker_ids())
        self._lock = DirectoryLock(self.data_dir)
        self._servers = ForkServers(slow_disks=spec.slow_disks)
        self._brokers = Brokers(self._servers, on_line, self._ended)
        self.rules = Rules(self._brokers, self.data_dir)
        self._network: ClusterNetwork | None = None
        self._keeper: KeeperRunner | None = None
        self._keeper_at: Address = LOOPBACK, 0
        self._by_hand: Ending | None = None
        self._one_stop_at_a_time = asyncio.Lock()
        self._paused: set[int] = set()
        self._full_disks: set[int] = set()
        self._slow_disks: set[int] = set()
        self._clock_offsets_ms: dict[int, int] = {}
        keeper = "" if spec.keeper == EMBEDDED else spec.keeper
        planned = [self._planned(number) for number in spec.broker_ids()]
        self.status = ClusterStatus(0, keeper, spec.generation, planned)
        self.status.generation = self._settings(planned[0]).tidelog_generation

    def _planned(self, number: int) -> BrokerStatus:
        folder = self.data_dir / f"broker-{number}"
        return BrokerStatus(number, LOOPBACK, self.spec.port_of(number), str(folder), f"{folder}.properties")

    # ------------------------------------------------------------ what it is

    @property
    def bootstrap_servers(self) -> str:
        """The brokers themselves, whatever becomes of the network."""
        return self.status.bootstrap_servers

    @property
    def reachable_servers(self) -> str:
        """Those of brokers that run and are not paused: only they can be asked."""
        return ",".join(str(Endpoint(*at)) for at in self._reachable().values())

    @property
    def pids(self) -> dict[int, int]:
        """The brokers that run, and their processes."""
        return self._brokers.pids

    @property
    def network(self) -> ClusterNetwork:
        """The links between the processes, which can be cut."""
        if self._network is None:
            raise ClusterError("the cluster is not running")
        return self._network

    def broker(self, number: int) -> BrokerStatus:
        for broker in self.status.brokers:
            if broker.id == number:
                return broker
        raise ClusterError(f"there is no broker {number}: the cluster has {len(self.status.brokers)}")

    def bootstrap_for(self, client: str, zone: str = "") -> str:
        """Where a client of this name begins. It finds no other way to the brokers than its own."""
        self.network.add_client(client, zone)
        routes = ((self.network.route(client, each.id), each) for each in self.status.brokers if each.port)
        return ",".join(str(Endpoint(*way)) if way else broker.address for way, broker in routes)

    def left_alone(self) -> list[int]:
        """Brokers that have data here from before and do not belong to the cluster now."""
        return sorted(broker_folders(self.data_dir).keys() - {broker.id for broker in self.status.brokers})

    # ------------------------------------------------------------ all of it

    async def start(self) -> None:
        """Until every broker knows all others and a controller. Raises `ClusterError`, with nothing left
        running, if that cannot be."""
        self.occupy()
        try:
            # They load the brokers' code while the network is made and the keeper starts.
            if self.spec.network != NETNS:
                self._servers.open()
            self._network = make_network(self.spec)
            for number in self.spec.broker_ids():
                self._servers.open(self._network.command_in(number))
            await self.start_keeper()
            async with asyncio.TaskGroup() as starting:
                for number in self.spec.broker_ids():
                    starting.create_task(self.start_broker(number))
            await self.ready()
            if self.spec.profile in _WITH_GROUPS:
                await self._create_offsets_topic()
        except BaseException as error:
            await self.stop()
            if isinstance(error, BaseExceptionGroup):
                raise error.exceptions[0] from None
            if isinstance(error, OSError):
                raise ClusterError(f"{self.data_dir}: {reason(error)}") from None
            raise

    def occupy(self, *, empty: bool = False) -> None:
        """Take the directory and make sure of the ports; from here on `tidelog down` finds the cluster.

        `start` does it, unless it was done before. `empty` removes what an earlier cluster left there.
        Raises `ClusterError`.
        """
        if self._lock.held:
            return
        if self._temporary:
            remove_leftovers()
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except AlreadyRunning as error:
            raise ClusterError(f"{error}: {self._advice}") from None
        except FileExistsError:
            raise ClusterError(f"{self.data_dir}: this is a file, not a folder") from None
        except OSError as error:
            raise ClusterError(f"{self.data_dir}: {reason(error)}") from None
        try:
            if left := running_brokers(self.data_dir):
                raise ClusterError(f"{left[0]} runs in {self.data_dir} already: {self._advice}")
            self._require_free_ports()
            if empty:
                remove_data(self.data_dir)
            self.status.pid = os.getpid()
            self.status.write(self.data_dir)
        except BaseException:
            self._leave()
            raise

    def _leave(self, *, remove_data: bool = False) -> None:
        if remove_data or self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)
        self._lock.release()

    @property
    def _advice(self) -> str:
        return f"stop it with tidelog down --data-dir {self.data_dir}"

    def _require_free_ports(self) -> None:
        try:
            require_free(LOOPBACK, (broker.port for broker in self.status.brokers if broker.port))
        except PortTaken as error:
            raise ClusterError(f"{error}: stop that, or choose another port") from None
        except OSError as error:
            raise ClusterError(f"cannot listen on {LOOPBACK}: {reason(error)}") from None

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
            knows[number] = await asyncio.to_thread(known_brokers, (broker.host, broker.port))
            if knows[number] >= self.pids.keys():
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _create_offsets_topic(self) -> None:
        """Now that all brokers live: on first use it would be created with as many replicas, which fails
        while one of them is down. Settings that forbid it are no reason not to start."""
        with suppress(ClusterError):
            await create_offsets_topic(self._reachable())

    async def stop(self, *, remove_data: bool = False) -> int:
        """Stop the brokers in order, then the rest. What does not end in time is killed. Returns how many
        brokers there were, those included that were started by hand: they cannot go on without the rest."""
        async with self._one_stop_at_a_time:
            return await self._stop(remove_data)

    async def _stop(self, remove_data: bool) -> int:
        ours = self.pids.values()
        if self._lock.held:  # else the brokers there are another cluster's
            self._by_hand = Ending(self.data_dir, spared=ours)
        if self._network is not None:
            with suppress(ClusterError):
                self._network.restore()
        self._brokers.ask_all_to_end()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await asyncio.gather(self._brokers.all_ended(), self._by_hand_ended())
        except TimeoutError:
            self.kill_all()
            await self._brokers.all_ended()
        await self._servers.close()
        if self._keeper is not None:
            await self._keeper.stop()
            self._keeper = None
        if self._network is not None:
            self._network.close()
            self._network = None
        if self._lock.held:  # else the file is another cluster's
            (self.data_dir / STATUS_FILE).unlink(missing_ok=True)
            self._leave(remove_data=remove_data)
        by_hand, self._by_hand = self._by_hand, None
        return len(ours) + (len(by_hand.asked) if by_hand is not None else 0)

    async def _by_hand_ended(self) -> None:
        while self._by_hand is not None and self._by_hand.ask():
            await asyncio.sleep(_POLL_SECONDS)

    def kill_all(self) -> None:
        self._brokers.kill_all()
        if self._by_hand is not None:
            self._by_hand.kill()

    # ------------------------------------------------------------ one broker

    async def start_broker(self, number: int) -> None:
        """Start a broker, for the first time or again where it was, and wait until it serves; in a trial,
        until it is registered, for a fault may keep the controller from it."""
        broker = self.broker(number)
        if number in self.pids:
            raise ClusterError(f"broker {number} is running already")
        state = _STARTED[self.spec.profile]
        broker.state = BrokerState.STARTING
        self._write_properties(broker)
        where = self.network.command_in(number)
        broker.pid = (await self._brokers.start(number, Path(broker.properties), where)).pid
        serving = await self._brokers.reached(number, BrokerState.REGISTERED)
        broker.host, broker.port, broker.metrics_port = serving
        self.network.place(number, (broker.host, broker.port))  # from now on a controller can reach it
        await self._brokers.reached(number, state)
        await self.rules.install(number)
        broker.state = state
        self._write_properties(broker)  # with its ports: started again by hand, it is where it was
        self._tell()

    async def stop_broker(self, number: int) -> None:
        """A controlled shutdown of one broker, to its end."""
        self.broker(number)
        await self._brokers.end(number, signal.SIGTERM)

    async def kill(self, number: int) -> None:
        """As a crash does: at once, with no chance to say goodbye. Returns when the process is gone."""
        self.broker(number)
        await self._brokers.end(number, signal.SIGKILL)

    async def ended(self, number: int) -> None:
        """Until a broker that ends by itself is gone."""
        await self._brokers.ended(number)

    async def pause(self, number: int) -> None:
        self._brokers.send(number, signal.SIGSTOP)
        self._paused.add(number)

    async def resume(self, number: int) -> None:
        self._brokers.send(number, signal.SIGCONT)
        self._paused.discard(number)
        await self.rules.install(number)

    def _ended(self, process: BrokerProcess) -> None:
        broker = self.broker(process.id)
        had_started = broker.state is not BrokerState.STARTING
        broker.state = BrokerState.ENDED
        for ends_with_its_process in (self._paused, self._full_disks, self._slow_disks):
            ends_with_its_process.discard(process.id)
        self._tell()
        if had_started and not process.expected_to_end:
            self._on_death(process)

    # ------------------------------------------------------------ power, disks and clocks

    async def lose_power(self, number: int) -> None:
        """As if its machine went dark: what was written and not synced is gone. It is cut off first, so that
        nothing which it says after we have looked how far it had synced reaches another node."""
        broker = self.broker(number)
        self.network.silence(number)
        try:
            synced = await asyncio.to_thread(recovery_points, broker.host, broker.metrics_port)
            await self.kill(number)
            await asyncio.to_thread(Disks().lose_power, Path(broker.data_dir), synced)
        finally:
            self.network.unsilence(number)

    async def fill_disk(self, number: int) -> None:
        """No log of a broker can grow, until `free_disk` or its next start. What it notes for an audit can
        still grow, as if that were on another disk."""
        notes = self.spec.settings.get("tidelog.evidence.dir")
        fill_disk(self._brokers.running(number), Path(self.broker(number).data_dir), notes)
        self._full_disks.add(number)

    async def free_disk(self, number: int) -> None:
        free_disk(self._brokers.running(number))
        self._full_disks.discard(number)

    async def slow_disk(self, number: int, ms: int) -> None:
        """Every sync takes so much longer; 0: no longer."""
        process = self._brokers.running(number)
        gate = self._servers.gate(self.network.command_in(number))
        if gate is None:
            raise ClusterError("disks cannot be slow: slow_disks was not asked for at the start")
        if not ms:
            gate.speed_up(process.pid)
            self._slow_disks.discard(number)
            return
        try:
            gate.slow_down(process.pid, ms)
        except OSError as error:
            raise NotPossibleHere(str(error)) from None
        self._slow_disks.add(number)

    async def set_clock(self, number: int, offset_ms: int) -> None:
        """Restart a broker with a clock that is wrong by so much, or right."""
        self._clock_offsets_ms[number] = offset_ms
        if number in self.pids:
            await self.stop_broker(number)
        await self.start_broker(number)

    async def heal(self) -> list[str]:
        """Undo everything: all links work, all brokers run. What could not be undone, in words."""
        wrong_clocks = [number for number, offset_ms in self._clock_offsets_ms.items() if offset_ms]
        steps: list[Callable[[], Awaitable[None]]] = [partial(asyncio.to_thread, self.network.restore)]
        steps += [self.start_keeper]
        steps += [partial(self.resume, number) for number in sorted(self._paused)]
        steps += [partial(self.free_disk, number) for number in sorted(self._full_disks)]
        steps += [partial(self.slow_disk, number, 0) for number in sorted(self._slow_disks)]
        steps += [partial(self.set_clock, number, 0) for number in sorted(wrong_clocks)]
        dead = [n for n in self.spec.broker_ids() if n not in self.pids and n not in wrong_clocks]
        steps += [partial(self.start_broker, number) for number in dead]
        trouble = []
        for step in steps:
            try:
                await step()
            except ClusterError as error:
                trouble.append(str(error))
        return trouble

    # ------------------------------------------------------------ the keeper

    async def start_keeper(self) -> None:
        """Once started it is always found at the same place. Does nothing if it runs, or is not ours."""
        if self.spec.keeper != EMBEDDED:
            return
        if self._keeper is None:
            folder, elsewhere = self.data_dir / KEEPER_FOLDER, self.network.command_in(KEEPER)
            at = self.network.route(KEEPER, KEEPER) if elsewhere else None
            self._keeper = (
                KeeperInside(folder, LOOPBACK) if at is None else KeeperOutside(folder, at, elsewhere)
            )
        self._keeper_at = await self._keeper.start()
        self.network.place(KEEPER, self._keeper_at)
        self.status.keeper = f"embedded://{Endpoint(*self._keeper_at)}"

    async def stop_keeper(self) -> None:
        """As if its process ended: the port closes, sessions wait in its log."""
        if self._keeper is None:
            raise ClusterError("the keeper does not run, or is not ours")
        await self._keeper.stop()

    async def keeper_failure(self) -> None:
        """Raises `ClusterError` when the keeper in this process can go on no longer; until then, waits."""
        if isinstance(self._keeper, KeeperInside):
            await self._keeper.failure()
        await asyncio.get_running_loop().create_future()

    # ------------------------------------------------------------ what brokers say (`answers`)

    @property
    def paused(self) -> frozenset[int]:
        return frozenset(self._paused)

    def _reachable(self) -> dict[int, Address]:
        """The brokers that run and are not paused."""
        running = (self.broker(number) for number in self.pids if number not in self._paused)
        return {broker.id: (broker.host, broker.port) for broker in running}

    # ------------------------------------------------------------ its files

    def _settings(self, broker: BrokerStatus) -> Settings:
        clock_offset_ms = self._clock_offsets_ms.get(broker.id)
        return broker_settings(self.spec, broker, self._network, self._keeper_at, clock_offset_ms)

    def _write_properties(self, broker: BrokerStatus) -> None:
        about = f"Broker {broker.id} of the cluster in {self.data_dir}, written when it is started."
        try:
            write(Path(broker.properties), self._settings(broker).chosen(), about)
        except OSError as error:
            raise ClusterError(f"{broker.properties}: {reason(error)}") from None

    def _tell(self) -> None:
        """Only while the file is ours. A full disk must not keep a cluster from going on."""
        if self._lock.held:
            with suppress(OSError):
                self.status.write(self.data_dir)
