"""The brokers of a scenario as processes, from one play to the next.

Each broker is the process that ``tidelog up`` starts, forked from one that has loaded the code. The event
loop runs only while the scenario waits for something, so no callback runs between two steps and nothing needs
a lock. At the end of a play its brokers are killed; the end of a cluster is not part of a scenario.

If this process is killed, the next one kills its brokers (``folders``).
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tidelog.cluster.broker_process import BrokerProcess, BrokerState, Serving
from tidelog.cluster.brokers import Brokers, LogFiles, ignore
from tidelog.cluster.errors import TrialError
from tidelog.cluster.forkserver import ForkServers
from tidelog.cluster.network.networks import LOOPBACK, reserve_port
from tidelog.errors import reason
from tidelog.process_stage.folders import TrialFolder
from tidelog.settings.properties import write

END_SECONDS = 20.0

Result = TypeVar("Result")


@dataclass(slots=True)
class Running:
    """One broker of the scenario, alive or not."""

    id: int
    folder: Path
    reserved: socket.socket
    process: BrokerProcess | None = None
    at: Serving | None = None
    """Where it serves, or served last."""
    paused: bool = False

    @property
    def port(self) -> int:
        return int(self.reserved.getsockname()[1])

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive


class Processes:
    def __init__(self, parent: Path | None = None) -> None:
        """Raises ``TrialError`` if the files of a play cannot be written."""
        self.folder = TrialFolder(parent)
        self.loop = asyncio.new_event_loop()
        self.brokers: dict[int, Running] = {}
        self._servers = ForkServers()
        self._logs = LogFiles(self.folder.path)
        self._processes = Brokers(self._servers, self._logs, ignore)
        self._plays = 0

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run the event loop until this is done. An interrupted task is cancelled."""
        task = self.loop.create_task(work)
        task.add_done_callback(_looked_at)
        try:
            return self.loop.run_until_complete(task)
        finally:
            task.cancel()

    # ------------------------------------------------------------ from one play to the next

    def begin_play(self, brokers: int) -> Path:
        """A folder for the files of a new cluster."""
        self._plays += 1
        path = self.folder.path / f"play-{self._plays}"
        path.mkdir()
        self._logs = LogFiles(path)
        self._processes = Brokers(self._servers, self._logs, ignore)
        self.brokers = {
            number: Running(number, path / f"broker-{number}", reserve_port()) for number in range(brokers)
        }
        return path

    def end_play(self) -> None:
        self._processes.kill_all()
        with suppress(TimeoutError):
            self.run(asyncio.wait_for(self._processes.all_ended(), END_SECONDS))
        self._logs.close()
        for broker in self.brokers.values():
            broker.reserved.close()
        self.brokers = {}

    def close(self) -> None:
        if self.loop.is_closed():
            return
        try:
            self.end_play()
            self.run(self._servers.close())
            self.run(self.loop.shutdown_default_executor())
        finally:
            self._processes.kill_all()  # if their orderly end was interrupted
            self._cancel_rest()
            self.loop.close()
            self.folder.close()

    def _cancel_rest(self) -> None:
        rest = asyncio.all_tasks(self.loop)
        for task in rest:
            task.cancel()
        if rest:
            self.run(_finish(rest))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ one broker

    async def start(self, number: int, settings: dict[str, str]) -> None:
        """Start a broker with these settings and its own id, folder and port. Returns before it serves.
        Raises ``ClusterError`` if the process does not start."""
        broker = self.brokers[number]
        properties = broker.folder.with_suffix(".properties")
        own = {
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://{LOOPBACK}:{broker.port}",
            "log.dirs": str(broker.folder),
            "tidelog.metrics.port": "0",
        }
        try:
            write(properties, settings | own, f"Broker {number} of a trial.")
        except OSError as error:
            raise TrialError(f"{properties}: {reason(error)}") from None
        broker.paused = False
        broker.process = await self._processes.start(number, properties)

    async def registered(self, number: int) -> Serving:
        """Wait until a broker is registered, and return its addresses. Raises ``ClusterError`` if it ends
        before, or takes too long."""
        broker = self.brokers[number]
        broker.at = await self._processes.reached(number, BrokerState.REGISTERED)
        return broker.at

    async def kill(self, number: int) -> None:
        """Send SIGKILL; return when the process has ended."""
        broker = self.brokers[number]
        if broker.is_up:
            await self._processes.end(number, signal.SIGKILL)
        broker.paused = False

    def pause(self, number: int) -> None:
        self._signal(number, signal.SIGSTOP)
        self.brokers[number].paused = True

    def resume(self, number: int) -> None:
        self._signal(number, signal.SIGCONT)
        self.brokers[number].paused = False

    def ask_to_leave(self, number: int) -> None:
        """Send SIGTERM, which begins a controlled shutdown."""
        self._signal(number, signal.SIGTERM, ends=True)

    def _signal(self, number: int, sent: signal.Signals, *, ends: bool = False) -> None:
        if self.brokers[number].is_up:
            self._processes.send(number, sent, ends=ends)


def _looked_at(task: asyncio.Task[Any]) -> None:
    """Mark the exception as retrieved: after an interruption the result is not used."""
    if not task.cancelled():
        task.exception()


async def _finish(tasks: set[asyncio.Task[Any]]) -> None:
    """Wait for cancelled tasks. A task that ignores its cancellation is abandoned after a time."""
    done, _ = await asyncio.wait(tasks, timeout=END_SECONDS)
    for task in done:
        _looked_at(task)
