"""Commands to a cluster that runs in another process: `tidelog kill 1` and the others.

The process that runs a cluster listens on a Unix socket, `cluster.sock`, in the data directory. One
connection carries one request and its answer, each a line of JSON:

    {"action": "kill", "broker": 1}        {"done": true}        {"refused": "broker 1 is not running"}

So brokers stay children of that process: it knows that a death was asked for, its log shows it, and a broker
that is started again ends with the cluster. Only the owner of the data directory may connect. A broker that
was started by hand is not a child: it is found by the lock on its data, and gets signals.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from tidelog.cluster.aio import Supervisor
from tidelog.cluster.conditions import is_stopped
from tidelog.cluster.directory import running_brokers
from tidelog.cluster.errors import ClusterError
from tidelog.errors import reason
from tidelog.storage.lock_file import Process

SOCKET_FILE: Final = "cluster.sock"
_ANSWER_SECONDS: Final = 120.0
"""A controlled shutdown may take 30 s, a start 60 s."""
_LINE_BYTES_MAX: Final = 64 * 1024
_POLL_SECONDS: Final = 0.02
_BACKLOG: Final = 16


class Action(StrEnum):
    KILL = "kill"
    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"


OnAction = Callable[[Action, int], None]
"""Gets what was done, and to which broker."""


class RemoteControl:
    """The side of the process that runs the cluster."""

    def __init__(self, cluster: Supervisor, on_action: OnAction) -> None:
        self._cluster = cluster
        self._on_action = on_action
        self._path = cluster.data_dir / SOCKET_FILE
        self._server: asyncio.Server | None = None
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> None:
        """Raises `OSError` if the file system has no sockets."""
        self._path.unlink(missing_ok=True)  # of a process that was killed: the directory is ours
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(listening.fileno(), 0o600)
            _at(self._path, listening.bind)
            listening.listen(_BACKLOG)
            listening.setblocking(False)
            self._server = await asyncio.start_unix_server(
                self._answer, sock=listening, limit=_LINE_BYTES_MAX
            )
        except BaseException:
            listening.close()
            raise

    def stop(self) -> None:
        """No more requests. One that is being answered is not waited for."""
        if self._server is not None:
            self._server.close()
            self._server = None
            self._path.unlink(missing_ok=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            try:
                answer = await self._perform(await reader.readline())
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
            finally:
                writer.close()

    async def _perform(self, line: bytes) -> dict[str, object]:
        try:
            request = json.loads(line)
            action, number = Action(request["action"]), int(request["broker"])
        except (ValueError, LookupError, TypeError):
            return {"refused": "the cluster runs another version of tidelog than this command"}
        try:
            async with self._one_at_a_time:
                await self._do(action, number)
        except ClusterError as error:
            return {"refused": str(error)}
        self._on_action(action, number)
        return {"done": True}

    async def _do(self, action: Action, number: int) -> None:
        self._cluster.broker(number)  # refuses an unknown one
        match action:
            case Action.KILL:
                await self._end(number, signal.SIGKILL)
            case Action.PAUSE:
                await self._pause(number)
            case Action.RESUME:
                await self._resume(number)
            case Action.RESTART:
                if self._by_hand(number) is not None or self._is_ours(number):
                    if is_stopped(self._process(number).pid):  # a paused one could not end
                        await self._resume(number)
                    await self._end(number, signal.SIGTERM)
                await self._cluster.start_broker(number)

    async def _pause(self, number: int) -> None:
        process = self._process(number)
        if is_stopped(process.pid):
            raise ClusterError(f"broker {number} is paused already")
        if self._is_ours(number):
            await self._cluster.pause(number)
        else:
            self._send(number, signal.SIGSTOP)
        while process.is_alive and not is_stopped(process.pid):  # on a busy machine a signal takes a moment
            await asyncio.sleep(_POLL_SECONDS)

    async def _resume(self, number: int) -> None:
        if not is_stopped(self._process(number).pid):
            raise ClusterError(f"broker {number} is not paused")
        if self._is_ours(number):
            await self._cluster.resume(number)
        else:
            self._send(number, signal.SIGCONT)

    async def _end(self, number: int, sent: signal.Signals) -> None:
        if self._is_ours(number):
            end = self._cluster.kill if sent is signal.SIGKILL else self._cluster.stop_broker
            await end(number)
            return
        process = self._process(number)
        self._send(number, sent)
        while self._by_hand(number) == process:
            await asyncio.sleep(_POLL_SECONDS)

    def _is_ours(self, number: int) -> bool:
        return number in self._cluster.pids

    def _by_hand(self, number: int) -> Process | None:
        """The process that has a broker's data now."""
        found = (each.process for each in running_brokers(self._cluster.data_dir) if each.id == number)
        return next(found, None)

    def _process(self, number: int) -> Process:
        if self._is_ours(number):
            return Process.of(self._cluster.pids[number])
        process = self._by_hand(number)
        if process is None:
            raise ClusterError(f"broker {number} is not running: start it with tidelog restart {number}")
        return process

    def _send(self, number: int, sent: signal.Signals) -> None:
        process = self._process(number)
        try:
            os.kill(process.pid, sent)
        except ProcessLookupError:
            raise ClusterError(f"broker {number} is not running") from None
        except PermissionError:
            raise ClusterError(f"broker {number} (pid {process.pid}) belongs to another user") from None


# ---------------------------------------------------------------- the side of the command


def perform(data_dir: Path, action: Action, broker: int) -> None:
    """Have a cluster do something to one of its brokers. Returns when it is done. Raises `ClusterError`."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_ANSWER_SECONDS)
            _at(data_dir / SOCKET_FILE, connection.connect)
            connection.sendall(json.dumps({"action": action, "broker": broker}).encode() + b"\n")
            with connection.makefile("rb") as answers:
                answer = json.loads(answers.readline() or b"{}")
    except TimeoutError:
        raise ClusterError(f"the cluster in {data_dir} does not answer after {_ANSWER_SECONDS:g} s") from None
    except (FileNotFoundError, ConnectionRefusedError):
        raise ClusterError(
            f"the cluster in {data_dir} takes no commands: it is still starting, or its supervisor was killed"
        ) from None
    except PermissionError:
        raise ClusterError(f"the cluster in {data_dir} belongs to another user") from None
    except OSError as error:
        raise ClusterError(f"the cluster in {data_dir}: {reason(error)}") from None
    except ValueError:
        answer = {}
    if "refused" in answer:
        raise ClusterError(str(answer["refused"]))
    if "done" not in answer:
        raise ClusterError(f"the cluster in {data_dir} ended before broker {broker} was done")


def _at(path: Path, use: Callable[[str], None]) -> None:
    """Use a socket's address. It may have 107 bytes, a path more: so the folder is given by a descriptor."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
