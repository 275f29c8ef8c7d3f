"""The supervisor's side of the process that forks brokers (`broker.forkserver`): asks it for brokers, and
hears from it when they end.

A cluster has one such process, or one on each machine if its brokers are in network namespaces. If disks can
be made slow, the syncs of its brokers are decided here (`sync_gate`).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.cluster.sync_gate import SyncGate


class ForkServerError(Exception):
    """Brokers cannot be started. The message is one line that says why."""


class ForkServer:
    """Begins to load when it is made; `fork` waits for that."""

    def __init__(self, command: Sequence[str] = (), descriptors: Sequence[int] = ()) -> None:
        """`command`: words to put before that which starts it, for it to run somewhere else; `descriptors`:
        what they need."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        with theirs:
            # A session of its own: Ctrl-C in the terminal is for the supervisor, who stops brokers in order.
            self._process = subprocess.Popen(
                [*command, sys.executable, "-m", "tidelog.broker.forkserver", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=(theirs.fileno(), *descriptors),
                start_new_session=True,
            )
        ours.setblocking(False)
        self._control = ours
        self._one_at_a_time = asyncio.Lock()
        self._answers: asyncio.Queue[int] = asyncio.Queue()
        self._ended: dict[int, asyncio.Future[int | None]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._hung_up = False

    @property
    def alive(self) -> bool:
        return not self._hung_up and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    async def fork(self, properties: Path, descriptors: list[int]) -> int:
        """Start a broker with these as its standard input, output and error; the id of its process."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())
        async with self._one_at_a_time:
            try:
                socket.send_fds(self._control, [json.dumps(str(properties)).encode()], descriptors)
            except OSError:
                raise ForkServerError(await self._last_words()) from None
            pid = await self._answers.get()
        if pid < 0:
            self._answers.put_nowait(pid)  # for the next request
            raise ForkServerError(await self._last_words())
        self._exit_of(pid)
        return pid

    async def ended(self, pid: int) -> int | None:
        """The exit code of a broker once it has one: negative if a signal ended it, None if not known."""
        return await asyncio.shield(self._exit_of(pid))

    async def close(self) -> None:
        """The process ends; brokers that still run do not."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        self._control.close()
        await asyncio.to_thread(self._process.wait)
        self._errors.close()
        self._forget()

    def _exit_of(self, pid: int) -> asyncio.Future[int | None]:
        if pid not in self._ended:
            self._ended[pid] = asyncio.get_running_loop().create_future()
        return self._ended[pid]

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        rest = b""
        while data := await self._receive(loop):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                said = json.loads(line)
                if "pid" in said:
                    self._answers.put_nowait(said["pid"])
                else:
                    _settle(self._exit_of(said["ended"]), said["code"])
        self._hung_up = True
        self._answers.put_nowait(-1)
        self._forget()

    def _forget(self) -> None:
        """How brokers end that have not ended by now will not be known."""
        for future in self._ended.values():
            _settle(future, None)

    async def _receive(self, loop: asyncio.AbstractEventLoop) -> bytes:
        try:
            return await loop.sock_recv(self._control, 4096)
        except OSError:
            return b""

    async def _last_words(self) -> str:
        await asyncio.to_thread(self._process.wait)  # it hangs up first and complains then
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(self._errors.tell() - 4096, 0))
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        return next(
            (line for line in reversed(lines) if line.strip()), "the process that starts brokers ended"
        )


class ForkServers:
    """The fork servers of a cluster, by the words that run a command on their machine."""

    def __init__(self, *, slow_disks: bool = False) -> None:
        self._slow_disks = slow_disks
        self._made: dict[tuple[str, ...], tuple[ForkServer, SyncGate | None]] = {}

    def open(self, command: Sequence[str] = ()) -> ForkServer:
        """The fork server that runs behind these words. Begins to load if it is new."""
        where = tuple(command)
        if where not in self._made:
            self._made[where] = self._gated(command) if self._slow_disks else (ForkServer(command), None)
        return self._made[where][0]

    def _gated(self, command: Sequence[str]) -> tuple[ForkServer, SyncGate]:
        from tidelog.cluster.sync_gate import SyncGate  # few clusters need it

        gate = SyncGate()
        server = ForkServer([*command, *gate.command()], [gate.theirs.fileno()])
        gate.open()
        return server, gate

    async def living(self, command: Sequence[str] = ()) -> ForkServer:
        """The same, but a new one if it has ended: its brokers live on. Not where a gate decides on their
        syncs, for then they cannot."""
        server = self.open(command)
        while not server.alive and not self._slow_disks:
            if self._made[tuple(command)][0] is server:
                del self._made[tuple(command)]
                await server.close()
            server = self.open(command)
        return server

    def gate(self, command: Sequence[str]) -> SyncGate | None:
        """What decides on the syncs of brokers that were started there."""
        _, gate = self._made[tuple(command)]
        return gate

    async def close(self) -> None:
        """When all brokers have ended."""
        for server, gate in self._made.values():
            await server.close()
            if gate is not None:
                gate.close()
        self._made.clear()


def _settle(future: asyncio.Future[int | None], code: int | None) -> None:
    if not future.done():
        future.set_result(code)
