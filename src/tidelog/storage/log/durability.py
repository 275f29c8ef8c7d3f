"""Syncs of one log, and its recovery point.

Everything below the recovery point survives a power cut, and recovery need not read it. It moves up only
after the syncs of the files and of the folder have returned (a synced file whose name was not synced is
lost), and it moves down *before* the log is truncated below it.

The event loop prepares a sync and a thread runs it, at the same time as other work of the loop. A truncation
in between makes the result of the sync void. The thread syncs duplicated descriptors, which the loop does not
close.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from tidelog.core.types import Offset
from tidelog.storage.durable import SharedNames, sync_data, sync_file, sync_folder
from tidelog.storage.log.batch_file import BatchFile


class Durability:
    __slots__ = (
        "_folder",
        "_lock",
        "_names_changed",
        "_names_synced",
        "_new",
        "_siblings",
        "_unsynced",
        "cuts",
        "recovery_point",
    )

    def __init__(
        self, folder: Path, recovery_point: Offset, siblings: SharedNames, *, new: bool = False
    ) -> None:
        """``siblings`` syncs the names in the parent folder."""
        self.recovery_point = recovery_point
        self._siblings = siblings
        self._new = siblings.added() if new else 0
        """Not 0 while the folder's own name is not durable."""
        self._folder = folder
        self._lock = Lock()
        self.cuts = 0
        self._unsynced: Path | None = None
        self._names_changed = int(new)
        self._names_synced = 0

    def names_changed(self) -> None:
        """A file was created, renamed or removed in the log's folder."""
        self._names_changed += 1

    def also_sync(self, path: Path) -> None:
        """Another file of the folder was written: the next sync makes it durable too."""
        self._unsynced = path
        self._names_changed += 1

    def cut(self, end_offset: Offset) -> bool:
        """The log is about to be truncated to ``end_offset``. True if the checkpointed recovery point lies
        above it, so that the checkpoint must be written first."""
        with self._lock:
            self.cuts += 1
            if end_offset >= self.recovery_point:
                return False
            self.recovery_point = end_offset
            return True

    def begin(self, end_offset: Offset, files: Sequence[BatchFile]) -> Callable[[bool], None]:
        """Returns a function that makes ``files`` durable up to ``end_offset``. It blocks, may run in any
        thread, and must be called; its argument says whether the recovery point may advance."""
        descriptors: list[int] = []
        try:
            for file in files:
                descriptors.append(file.duplicate_descriptor())
        except OSError:
            _close(descriptors)
            raise
        names, cuts, unsynced = self._names_changed, self.cuts, self._unsynced

        def sync(advance: bool) -> None:
            try:
                for descriptor in descriptors:
                    sync_data(descriptor)
            finally:
                _close(descriptors)
            if unsynced is not None:
                sync_file(unsynced)
                self._unsynced = None
            if names != self._names_synced:
                sync_folder(self._folder)
                if self._new:
                    self._siblings.sync(self._folder.parent, self._new)
                    self._new = 0
            with self._lock:
                self._names_synced = max(self._names_synced, names)
                if advance and cuts == self.cuts:
                    self.recovery_point = max(self.recovery_point, end_offset)

        return sync


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
