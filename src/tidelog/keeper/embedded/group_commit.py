"""Group commit: commands are executed in the order they were submitted, and only once they are on disk.

While a thread writes and syncs one batch, the next one gathers: the slower the disk, the larger the batches.
Since nothing is executed before it is durable, the tree never shows a write that a power cut could undo, and
reads never wait for writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tidelog.keeper.embedded.journal import Journal
from tidelog.keeper.embedded.state import Command, KeeperState, snapshot_to_json

_Item = tuple[Command | None, Callable[[], None]]


class GroupCommit:
    __slots__ = ("_failed", "_gathering", "_log", "_state", "_stopping", "_task", "_wake")

    def __init__(self, state: KeeperState, log: Journal | None, failed: Callable[[Exception], None]) -> None:
        """Without a log commands are executed at once. After ``failed``, for example on a full disk, none is
        executed."""
        self._state = state
        self._log = log
        self._failed = failed
        self._gathering: list[_Item] = []
        self._wake = asyncio.Event()
        self._stopping = False
        self._task = None if log is None else asyncio.create_task(self._commit_batches(log))

    def submit(self, command: Command | None, execute: Callable[[], None]) -> None:
        """``command`` None: nothing to log, but execute it in order."""
        if self._log is None:
            execute()
        else:
            self._gathering.append((command, execute))
            self._wake.set()

    async def stop(self) -> None:
        """Execute the submitted commands, then stop."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task

    async def _commit_batches(self, log: Journal) -> None:
        while not self._stopping or self._gathering:
            await self._wake.wait()
            self._wake.clear()
            batch, self._gathering = self._gathering, []
            commands = [command for command, _ in batch if command is not None]
            try:
                if commands:
                    await asyncio.to_thread(log.append, commands)
                for _, execute in batch:
                    execute()
                if log.wants_snapshot:
                    await asyncio.to_thread(_rotate, log, self._state.copy())
            except Exception as error:
                self._failed(error)
                return


def _rotate(log: Journal, copied: dict[str, Any]) -> None:
    log.rotate(snapshot_to_json(copied))
