"""The brokers of a trial as processes: started, killed, paused and ended, and never left behind.

Each broker is what ``tidelog up`` starts, forked from a process that has loaded their code. They are run from
an event loop that belongs to whoever plays the trial and turns only while that waits for something: so
nothing happens behind its back, and there is nothing to lock.

Nothing outlives a trial: ``close`` kills what still runs; so does the end of this process, if it comes first
(``atexit``); and if even that is denied (``kill -9``), brokers see their standard input end, and the next
trial ends those that cannot (``folders``).
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import socket
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tidelog.cluster.broker_process import BrokerProcess, Serving, exit_summary
from tidelog.cluster.errors import TrialError
from tidelog.cluster.folders import TrialFolder
from tidelog.cluster.forkserver import ForkServer, ForkServerError
from tidelog.settings.properties import write

START_SECONDS = 60.0
END_SECONDS = 20.0
HOST = "127.0.0.1"

Result = TypeVar("Result")


@dataclass(slots=True)
class Running:
    """One broker of the trial, alive or not."""

    id: int
    folder: Path
    reserved: socket.socket
    """Bound, but never listening: keeps the port for this broker and nobody else."""
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
        """Raises ``TrialError`` if there is no place for the files of a trial."""
        self.folder = TrialFolder(parent)
        self.loop = asyncio.new_event_loop()
        self.brokers: dict[int, Running] = {}
        self._nursery: ForkServer | None = None
        self._plays = 0
        atexit.register(self._kill_all)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Turn the event loop until this is done. What is interrupted goes no further than to clean up."""
        task = self.loop.create_task(work)
        task.add_done_callback(_looked_at)
        try:
            return self.loop.run_until_complete(task)
        finally:
            task.cancel()

    # ------------------------------------------------------------ from one play to the next

    def begin_play(self, brokers: int) -> Path:
        """A folder for the files of a cluster that starts from nothing."""
        self._plays += 1
        path = self.folder.path / f"play-{self._plays}"
        path.mkdir()
        self.brokers = {
            number: Running(number, path / f"broker-{number}", _reserve_port()) for number in range(brokers)
        }
        return path

    def end_play(self) -> None:
        """Kill what runs: how a cluster ends is not part of a scenario."""
        self._kill_all()
        with suppress(TimeoutError):
            self.run(asyncio.wait_for(self._all_ended(), END_SECONDS))
        for broker in self.brokers.values():
            broker.reserved.close()
        self.brokers = {}

    async def _all_ended(self) -> None:
        await asyncio.gather(*(b.process.ended() for b in self.brokers.values() if b.process is not None))

    def _kill_all(self) -> None:
        for broker in self.brokers.values():
            if broker.process is not None:
                broker.process.expected_to_end = True
                broker.process.signal(signal.SIGKILL)

    def close(self) -> None:
        if self.loop.is_closed():
            return
        try:
            self.end_play()
            if self._nursery is not None:
                self.run(self._nursery.close())
            self.run(self.loop.shutdown_default_executor())
        finally:
            self._kill_all()  # whatever interrupted their orderly end
            self._cancel_rest()
            self.loop.close()
            self.folder.close()
            atexit.unregister(self._kill_all)

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
        """Start a broker with these settings; it has an id, a folder and a port of its own. Returns before it
        serves. Raises ``TrialError`` if nothing can be started."""
        broker = self.brokers[number]
        properties = broker.folder.with_suffix(".properties")
        own = {
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://{HOST}:{broker.port}",
            "log.dirs": str(broker.folder),
            "tidelog.metrics.port": "0",
        }
        try:
            write(properties, settings | own, f"Broker {number} of a trial.")
        except OSError as error:
            raise TrialError(f"{properties}: {(error.strerror or str(error)).lower()}; make room") from None
        process = broker.process = BrokerProcess(number, properties, self._logged, self._ended)
        broker.paused = False
        if self._nursery is None:
            self._nursery = ForkServer()
        try:
            await process.start(self._nursery)
        except ForkServerError as error:
            raise TrialError(f"broker {number} cannot be started: {error}") from None
        self.folder.started(process.pid)

    async def registered(self, number: int) -> Serving:
        """Where a broker will serve, once it is registered: clients wait until a controller has reached it.
        Raises ``TrialError`` if it ends before, or takes too long."""
        broker = self.brokers[number]
        process = broker.process
        assert process is not None
        try:
            broker.at = await asyncio.wait_for(process.registered(), START_SECONDS)
        except EOFError:
            raise TrialError(exit_summary(process)) from None
        except TimeoutError:
            raise TrialError(f"broker {number} is not registered after {START_SECONDS:g} s") from None
        return broker.at

    async def kill(self, number: int) -> None:
        """At once, with no chance to say goodbye; returns when it is gone."""
        broker = self.brokers[number]
        if broker.process is not None:
            broker.process.expected_to_end = True
            broker.process.signal(signal.SIGKILL)
            await broker.process.ended()
        broker.paused = False

    def pause(self, number: int) -> None:
        self._signal(number, signal.SIGSTOP)
        self.brokers[number].paused = True

    def resume(self, number: int) -> None:
        self._signal(number, signal.SIGCONT)
        self.brokers[number].paused = False

    def ask_to_leave(self, number: int) -> None:
        """A controlled shutdown begins."""
        process = self.brokers[number].process
        if process is not None:
            process.expected_to_end = True
        self._signal(number, signal.SIGTERM)

    def _signal(self, number: int, sent: signal.Signals) -> None:
        process = self.brokers[number].process
        if process is not None:
            process.signal(sent)

    # ------------------------------------------------------------ what they say

    def log_of(self, number: int) -> Path:
        return self.brokers[number].folder.with_suffix(".log")

    def _logged(self, number: int, line: str) -> None:
        if number in self.brokers:
            with suppress(OSError), self.log_of(number).open("a", encoding="utf-8") as file:
                file.write(f"{line}{os.linesep}")

    def _ended(self, process: BrokerProcess) -> None:
        self.folder.ended(process.pid)


def _reserve_port() -> socket.socket:
    """Two sockets may have one port with this option, as long as only one of them listens."""
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((HOST, 0))
    return reserved


def _looked_at(task: asyncio.Task[Any]) -> None:
    """Whoever was interrupted does not ask for the result any more."""
    if not task.cancelled():
        task.exception()


async def _finish(tasks: set[asyncio.Task[Any]]) -> None:
    """Nothing runs any more that one of them could wait for: who does not heed its cancellation is left."""
    done, _ = await asyncio.wait(tasks, timeout=END_SECONDS)
    for task in done:
        _looked_at(task)
