"""A cluster for programs that block: tests, notebooks, scripts with an ordinary Kafka client.

    with LocalCluster(tmp_path, brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        …
        cluster.kill(1)

The same `AsyncCluster`, with its event loop in a thread of its own. Every method waits until it is done.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tidelog.cluster.aio import EMBEDDED, AsyncCluster
from tidelog.cluster.directory import BrokerStatus

Result = TypeVar("Result")


class Cluster:
    def __init__(
        self,
        data_dir: Path,
        *,
        brokers: int = 3,
        port: int = 0,
        generation: str = "epoch",
        keeper: str = EMBEDDED,
        overrides: Mapping[str, str] | None = None,
        on_line: Callable[[int, str], None] = lambda number, line: None,
    ) -> None:
        """`on_line` gets what brokers log, in the cluster's thread. Raises `SettingsError`."""
        self._cluster = AsyncCluster(
            data_dir,
            brokers=brokers,
            port=port,
            generation=generation,
            keeper=keeper,
            overrides=overrides,
            on_line=on_line,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tidelog-cluster", daemon=True)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # ------------------------------------------------------------ all of them

    def start(self) -> None:
        """Until the cluster is ready. Raises `ClusterError`, with nothing left running."""
        self._thread.start()
        try:
            self._run(self._cluster.start())
            self._run(self._cluster.ready())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._loop.is_closed():
            return
        try:
            self._run(self._cluster.stop())
            self._run(self._loop.shutdown_default_executor())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

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

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def data_dir(self) -> Path:
        return self._cluster.data_dir

    @property
    def brokers(self) -> list[BrokerStatus]:
        return self._cluster.status.brokers

    @property
    def pids(self) -> dict[int, int]:
        """The brokers that run, and their processes."""
        return self._cluster.pids

    # ------------------------------------------------------------ one of them

    def kill(self, number: int) -> None:
        """As a crash does; returns when the process is gone."""
        self._run(self._do(self._cluster.kill, number))
        self._run(self._cluster.ended(number))

    def pause(self, number: int) -> None:
        self._run(self._do(self._cluster.pause, number))

    def resume(self, number: int) -> None:
        self._run(self._do(self._cluster.resume, number))

    def stop_broker(self, number: int) -> None:
        self._run(self._cluster.stop_broker(number))

    def start_broker(self, number: int) -> None:
        self._run(self._cluster.start_broker(number))

    @staticmethod
    async def _do(action: Callable[[int], None], number: int) -> None:
        action(number)
