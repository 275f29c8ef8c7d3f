"""The keeper of a cluster: in the supervisor's process, or, on a machine of its own, in one of its own.

Either way it is the embedded keeper with its log on disk: stopped and started again it knows everything that
it had confirmed, sessions included; their time-outs start again. Both run in the supervisor's event loop.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Final, Protocol

from tidelog.cluster.errors import ClusterError
from tidelog.keeper.embedded.data_dir import KeeperStorageError
from tidelog.keeper.embedded.server import EmbeddedKeeper

_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 20.0

Address = tuple[str, int]


class KeeperRunner(Protocol):
    async def start(self) -> Address:
        """Where it serves: the same place every time. Raises `ClusterError`."""
        ...

    async def stop(self) -> None:
        """As if its process ended: the port closes, sessions wait in its log."""
        ...


class KeeperInside:
    def __init__(self, folder: Path, host: str) -> None:
        self._folder = folder
        self._host = host
        self._port = 0
        self._keeper: EmbeddedKeeper | None = None

    async def start(self) -> Address:
        if self._keeper is None:
            keeper = EmbeddedKeeper(self._folder, host=self._host, port=self._port)
            try:
                await keeper.start()
            except (OSError, KeeperStorageError) as error:
                raise ClusterError(f"the keeper cannot start: {error}") from None
            self._keeper, self._port = keeper, keeper.port
        return self._host, self._port

    async def failure(self) -> None:
        """Raises `ClusterError` when it can go on no longer; returns when it was stopped."""
        try:
            if self._keeper is not None:
                await self._keeper.wait()
        except OSError as error:
            raise ClusterError(f"the keeper cannot write its log: {error}") from None

    async def stop(self) -> None:
        if self._keeper is not None:
            keeper, self._keeper = self._keeper, None
            await keeper.stop()


class KeeperOutside:
    def __init__(self, folder: Path, at: Address, command: list[str]) -> None:
        """`command`: words that make what follows them run where the keeper is."""
        self._folder = folder
        self._at = at
        self._command = command
        self._process: Process | None = None

    async def start(self) -> Address:
        if self._process is None:
            host, port = self._at
            words = ["-m", "tidelog.cluster.keeper_process", host, str(port), str(self._folder)]
            self._process = await asyncio.create_subprocess_exec(
                *self._command, sys.executable, *words, stdin=PIPE, stdout=PIPE, start_new_session=True
            )
            assert self._process.stdout is not None
            try:
                async with asyncio.timeout(_START_SECONDS):
                    said = (await self._process.stdout.readline()).decode().strip()
            except TimeoutError:
                said = f"it does not serve after {_START_SECONDS:g} s"
            except BaseException:
                await self.stop()
                raise
            if said != "serving":
                await self.stop()
                raise ClusterError(f"the keeper cannot start: {said}")
        return self._at

    async def stop(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.communicate(), _STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
