"""The broker processes of one cluster: started, signalled, waited for, and never left behind.

Nothing outlives a cluster. Its owner ends the brokers; if the process ends first, they are killed (`atexit`);
and if that is denied (``kill -9``), brokers see their standard input end and shut down by themselves.
"""

from __future__ import annotations

import asyncio
import atexit
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from tidelog.cluster.broker_process import BrokerProcess, BrokerState, Serving, exit_summary
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.forkserver import ForkServerError, ForkServers

START_SECONDS = 60.0
ASK_SECONDS = 10.0

OnLine = Callable[[int, str], None]
"""Gets the id of a broker and a line that it has logged."""
OnDeath = Callable[[BrokerProcess], None]
"""Gets a broker that ended although it was not asked to."""


def ignore(*_: object) -> None:
    """For a caller who does not want to know."""


class Brokers:
    def __init__(self, servers: ForkServers, on_line: OnLine, on_end: OnDeath) -> None:
        """`on_end` is called for every process that ends. The fork servers stay the caller's."""
        self._servers = servers
        self._on_line = on_line
        self._on_end = on_end
        self._processes: dict[int, BrokerProcess] = {}

    @property
    def pids(self) -> dict[int, int]:
        """The brokers that run, and their processes."""
        return {number: process.pid for number, process in self._processes.items() if process.alive}

    def running(self, number: int) -> BrokerProcess:
        if number not in self.pids:
            raise ClusterError(f"broker {number} is not running")
        return self._processes[number]

    async def start(self, number: int, properties: Path, command: Sequence[str] = ()) -> BrokerProcess:
        """Start a broker behind the words of `command`. Returns before it serves."""
        if number in self.pids:
            raise ClusterError(f"broker {number} is running already")
        process = self._processes[number] = BrokerProcess(number, properties, self._on_line, self._on_end)
        atexit.unregister(self.kill_all)
        atexit.register(self.kill_all)
        try:
            await process.start(await self._servers.living(command))
        except ForkServerError as error:
            raise ClusterError(f"broker {number} cannot be started: {error}") from None
        return process

    async def reached(self, number: int, state: BrokerState) -> Serving:
        """Where a broker can be reached, once it is registered, or serves."""
        process = self._processes[number]
        try:
            async with asyncio.timeout(START_SECONDS):
                return await process.reached(state)
        except EOFError:
            raise ClusterError(exit_summary(process)) from None
        except TimeoutError:
            raise ClusterError(f"broker {number} is not {state} after {START_SECONDS:g} s") from None

    def send(self, number: int, sent: signal.Signals, *, ends: bool = False) -> None:
        process = self.running(number)
        process.expected_to_end |= ends
        process.signal(sent)

    async def ask(self, number: int, command: Mapping[str, Any]) -> None:
        """Have something done inside a broker (`broker.control`)."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await self.running(number).ask(command)
        except EOFError:
            raise ClusterError(f"broker {number} is not running") from None
        except ValueError as error:
            raise ClusterError(f"broker {number} refuses: {error}") from None
        except TimeoutError:
            raise ClusterError(
                f"broker {number} does not answer its supervisor after {ASK_SECONDS:g} s: is it paused?"
            ) from None

    async def end(self, number: int, sent: signal.Signals) -> None:
        """Send a signal that ends a broker, and wait until it has ended."""
        self.send(number, sent, ends=True)
        await self._processes[number].ended()

    async def ended(self, number: int) -> None:
        if number in self._processes:
            await self._processes[number].ended()

    # ------------------------------------------------------------ all of them

    def ask_all_to_end(self) -> None:
        for process in self._processes.values():
            process.expected_to_end = True
            process.signal(signal.SIGCONT)  # a paused one could not end
            process.signal(signal.SIGTERM)

    def kill_all(self) -> None:
        for process in self._processes.values():
            process.expected_to_end = True
            process.signal(signal.SIGKILL)

    async def all_ended(self) -> None:
        await asyncio.gather(*(process.ended() for process in self._processes.values()))
        atexit.unregister(self.kill_all)


class LogFiles:
    """What brokers log, in a file for each. To be passed as `on_line`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[int, TextIO] = {}

    def __call__(self, number: int, line: str) -> None:
        with suppress(OSError, ValueError):  # a full disk, or a line after the end
            if number not in self._files:
                path = self._folder / f"broker-{number}.log"
                self._files[number] = path.open("a", encoding="utf-8", buffering=1)
            self._files[number].write(f"{line}\n")

    def close(self) -> None:
        for file in self._files.values():
            file.close()
