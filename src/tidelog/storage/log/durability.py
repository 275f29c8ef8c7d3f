"""How far a log is on disk, and how it gets there.

The recovery point is a promise: everything below it survives a power cut, and recovery need not look at it.
It moves up only when the syncs it rests on have returned, those of the folder included (a file that was
synced but whose name was not is gone), and it moves down *before* the log is truncated below it.

A sync is prepared by the event loop and carried out by a thread, so both may be at work at once: whatever
was truncated in between makes the thread's result void, and descriptors are duplicated so that nobody closes
a file under it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from tidelog.core.types import Offset
from tidelog.storage.durable import SharedNames, sync_data, sync_folder
from tidelog.storage.log.batch_file import BatchFile


class Durability:
    __slots__ = (
        "_folder",
        "_lock",
        "_names_changed",
        "_names_synced",
        "_new",
        "_siblings",
        "cuts",
        "recovery_point",
    )

    def __init__(
        self, folder: Path, recovery_point: Offset, siblings: SharedNames, *, new: bool = False
    ) -> None:
        """``siblings`` are the names beside the folder's own."""
        self.recovery_point = recovery_point
        self._siblings = siblings
        self._new = siblings.added() if new else 0
        """Not 0: the folder's own name is not durable yet."""
        self._folder = folder
        self._lock = Lock()
        self.cuts = 0
        self._names_changed = int(new)
        self._names_synced = 0

    def names_changed(self) -> None:
        """A file was created, renamed or removed in the log's folder."""
        self._names_changed += 1

    def cut(self, end_offset: Offset) -> bool:
        """The log is about to end there. True if that breaks the promise in the checkpoint file, so that the
        file must be written first."""
        with self._lock:
            self.cuts += 1
            if end_offset >= self.recovery_point:
                return False
            self.recovery_point = end_offset
            return True

    def begin(self, end_offset: Offset, files: Sequence[BatchFile]) -> Callable[[bool], None]:
        """Take up what ``files`` hold below ``end_offset``: durable when the returned call has returned.
        That call blocks, may be made in any thread, and must be made; its argument says whether the recovery
        point may follow."""
        descriptors: list[int] = []
        try:
            for file in files:
                descriptors.append(file.duplicate_descriptor())
        except OSError:
            _close(descriptors)
            raise
        names, cuts = self._names_changed, self.cuts

        def sync(advance: bool) -> None:
            try:
                for descriptor in descriptors:
                    sync_data(descriptor)
            finally:
                _close(descriptors)
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
