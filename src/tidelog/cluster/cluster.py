"""A cluster for programs that block: tests, notebooks, trials, scripts with an ordinary Kafka client.

    with Cluster(ClusterSpec(brokers=3)) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        …
        cluster.kill(cluster.leader_of("topic"))

An `AsyncCluster` with its event loop in a thread of its own. Every method may be called from any thread and
returns when its effect is there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tidelog.cluster.aio import AsyncCluster
from tidelog.cluster.brokers import OnDeath, OnLine, ignore
from tidelog.cluster.directory import BrokerStatus, ClusterStatus
from tidelog.cluster.network.networks import ClusterNetwork
from tidelog.cluster.observe import ANSWER_SECONDS
from tidelog.cluster.spec import ClusterSpec

Result = TypeVar("Result")


class Cluster:
    def __init__(
        self,
        spec: ClusterSpec | None = None,
        data_dir: Path | None = None,
        *,
        on_line: OnLine = ignore,
        on_death: OnDeath = ignore,
    ) -> None:
        """As for `AsyncCluster`; `on_line` and `on_death` are called in the cluster's thread. Raises
        `SettingsError`."""
        self._cluster = AsyncCluster(spec, data_dir, on_line=on_line, on_death=on_death)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        assert self._loop is not None, "the cluster is not running"
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
            self._run(self._cluster.start())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._loop is None or self._thread is None:
            return
        try:
            self._run(self._cluster.stop())
            self._run(self._loop.shutdown_default_executor())
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
        self._run(self._cluster.ready())

    def heal(self) -> list[str]:
        """Undo everything: all links work, all brokers run. What could not be undone, in words."""
        return self._run(self._cluster.heal())

    # ------------------------------------------------------------ what it is

    @property
    def spec(self) -> ClusterSpec:
        return self._cluster.spec

    @property
    def data_dir(self) -> Path:
        return self._cluster.data_dir

    @property
    def status(self) -> ClusterStatus:
        return self._cluster.status

    @property
    def brokers(self) -> list[BrokerStatus]:
        return self._cluster.status.brokers

    @property
    def pids(self) -> dict[int, int]:
        """The brokers that run, and their processes."""
        return self._cluster.pids

    @property
    def network(self) -> ClusterNetwork:
        """The links between the processes, which can be cut."""
        return self._cluster.network

    @property
    def bootstrap_servers(self) -> str:
        """The brokers themselves, whatever becomes of the network."""
        return self._cluster.bootstrap_servers

    def bootstrap_for(self, client: str, zone: str = "") -> str:
        """Where a client of this name begins. It finds no other way to the brokers than its own."""
        return self._cluster.bootstrap_for(client, zone)

    def controller(self, *, timeout_s: float = ANSWER_SECONDS) -> int:
        """The broker that all brokers which can be asked hold to be the controller."""
        return self._run(self._cluster.controller(timeout_s=timeout_s))

    def leader_of(self, topic: str, partition: int = 0, *, timeout_s: float = ANSWER_SECONDS) -> int:
        """The broker that all brokers which can be asked hold to be the leader of a partition."""
        return self._run(self._cluster.leader_of(topic, partition, timeout_s=timeout_s))

    def wait_isr(self, topic: str, size: int, *, timeout_s: float = ANSWER_SECONDS) -> None:
        """Until all brokers that can be asked know so many in-sync replicas of every partition of a topic."""
        self._run(self._cluster.wait_isr(topic, size, timeout_s=timeout_s))

    # ------------------------------------------------------------ one broker, and the keeper

    def start_broker(self, number: int) -> None:
        """Start a broker again where it was."""
        self._run(self._cluster.start_broker(number))

    def stop_broker(self, number: int) -> None:
        """A controlled shutdown, to its end."""
        self._run(self._cluster.stop_broker(number))

    def kill(self, number: int) -> None:
        """As a crash does; returns when the process is gone."""
        self._run(self._cluster.kill(number))

    def pause(self, number: int) -> None:
        self._run(self._cluster.pause(number))

    def resume(self, number: int) -> None:
        self._run(self._cluster.resume(number))

    def lose_power(self, number: int) -> None:
        """As if its machine went dark: what was written and not synced is gone."""
        self._run(self._cluster.lose_power(number))

    def fill_disk(self, number: int) -> None:
        """No log of a broker can grow, until `free_disk` or its next start."""
        self._run(self._cluster.fill_disk(number))

    def free_disk(self, number: int) -> None:
        self._run(self._cluster.free_disk(number))

    def slow_disk(self, number: int, ms: int) -> None:
        """Every sync takes so much longer; 0: no longer."""
        self._run(self._cluster.slow_disk(number, ms))

    def set_clock(self, number: int, offset_ms: int) -> None:
        """Restart a broker with a clock that is wrong by so much, or right."""
        self._run(self._cluster.set_clock(number, offset_ms))

    def start_keeper(self) -> None:
        self._run(self._cluster.start_keeper())

    def stop_keeper(self) -> None:
        """As if its process ended: the port closes, sessions wait in its log."""
        self._run(self._cluster.stop_keeper())
