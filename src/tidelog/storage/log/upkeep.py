"""What a log does behind its appends: syncs, checkpoints, removals, in order and in some thread.

The event loop hands work over and goes on. Work comes in two kinds. What can be done without (an index, a
snapshot, the removal of a file) is attempted: if the disk refuses it, somebody is told and the log goes on. A
sync that fails is different: the kernel drops the pages it could not write, so nobody knows any more what is
on the disk, and a second sync would succeed and mean nothing. From then on the log takes no more appends,
until the broker is started again and reads what is really there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

from tidelog.core.log_port import StorageFailure
from tidelog.core.replication.epoch_cache import EpochEntry
from tidelog.core.types import Offset
from tidelog.storage.background import Job, JobQueue
from tidelog.storage.checkpoints import LEADER_EPOCHS, write_epochs
from tidelog.storage.durable import unlink_all
from tidelog.storage.log.batch_file import BatchFile
from tidelog.storage.log.durability import Durability
from tidelog.storage.log.renames import NotUndone
from tidelog.storage.resources import Shared

Epochs = tuple[EpochEntry, ...]


class Upkeep:
    __slots__ = (
        "_deleted",
        "_durability",
        "_epochs",
        "_epochs_written",
        "_folder",
        "_jobs",
        "_shared",
        "_writing_epochs",
        "failure",
    )

    def __init__(
        self, folder: Path, durability: Durability, epochs_written: Epochs | None, shared: Shared
    ) -> None:
        self.failure = ""
        """Why nothing can be appended any more."""
        self._folder = folder
        self._durability = durability
        self._shared = shared
        self._jobs = JobQueue(shared.background, self.failed)
        self._writing_epochs = Lock()
        self._epochs = epochs_written
        self._epochs_written = epochs_written
        self._deleted = False

    def failed(self, error: OSError) -> None:
        if not self._deleted:
            reason = error.strerror or error
            self.failure = f"{self._folder} failed: {reason}; check the disk and start the broker again"

    def refused(self, what: str, error: OSError) -> StorageFailure:
        """The disk refused a change of the log. Unless that could not be undone, it can be tried again."""
        if isinstance(error, NotUndone):
            self.failed(error)
            return StorageFailure(self.failure)
        return StorageFailure(f"cannot {what} {self._folder}: {error.strerror or error}")

    def check(self) -> None:
        """Nothing more is written to a log that has failed: see ``failure``."""
        if self.failure:
            raise StorageFailure(self.failure)

    def abandon(self) -> None:
        """The log is deleted, and its folder about to be. What is still to be done must not be done any more:
        a log of the same name may take the folder's place, and it would be done there."""
        self._deleted = True

    # ------------------------------------------------------------ work

    def sync_later(self, sync: Job, attempts: Sequence[Job | None], then: Job) -> None:
        """Sync in the background, attempting some other writes before so that they are part of it."""

        def run() -> None:
            for write in attempts:
                self.attempt(write)
            # Also for a log that is deleted: only the sync itself lets go of its files.
            with suppress(StorageFailure):  # the next append will raise it
                sync()
            then()

        self._jobs.submit(run)

    def attempt(self, job: Job | None) -> bool:
        """Do what can be done without; False if the disk did not take it."""
        if self._deleted:
            return False
        try:
            if job is not None:
                job()
        except OSError as error:
            if not self._deleted:
                self._shared.report(f"{error.filename or self._folder}: {error.strerror or error}")
            return False
        return True

    def attempt_later(self, job: Job) -> None:
        self._jobs.submit(lambda: self._attempt(job))

    def _attempt(self, job: Job) -> None:
        self.attempt(job)

    def finish(self) -> None:
        """Do here what is still to be done."""
        self._jobs.finish()

    def remove(self, paths: list[Path], *, start_moved: bool = False) -> None:
        """Remove files that were taken out of the log by renaming them. If the log starts elsewhere now, that
        is checkpointed before: as long as it is not, the files say why those offsets are not there."""
        if paths:
            self._durability.names_changed()
            if start_moved:
                self._shared.after_checkpoint(lambda: self._attempt(lambda: unlink_all(paths)))
            else:
                self.attempt_later(lambda: unlink_all(paths))

    # ------------------------------------------------------------ epochs

    def checkpoint_epochs(self, epochs: Epochs) -> None:
        """Write them down, soon, and in any case before the recovery point moves."""
        self._epochs = epochs
        self.attempt_later(self.write_epochs)

    def write_epochs(self) -> None:
        with self._writing_epochs:
            epochs = self._epochs
            if epochs is not None and epochs is not self._epochs_written:
                write_epochs(self._folder / LEADER_EPOCHS, epochs)
                self._epochs_written = epochs

    # ------------------------------------------------------------ syncs

    def begin_sync(self, end_offset: Offset, files: Sequence[BatchFile]) -> Callable[[], None]:
        """Take up what ``files`` hold below ``end_offset``: once the returned call has returned, it is on
        disk. The call blocks, must be made, and raises ``StorageFailure`` if that cannot be any more."""
        sync: Callable[[bool], None] | None = None
        try:
            sync = self._durability.begin(end_offset, files)
        except OSError as error:
            self.failed(error)

        def finish() -> None:
            # The recovery point may pass an epoch's first batch only when the epoch is checkpointed: below
            # the point nobody reads batches to learn of it.
            epochs_written = self.attempt(self.write_epochs)
            try:
                if sync is not None:
                    sync(epochs_written)
            except OSError as error:
                self.failed(error)
            if self.failure and not self._deleted:
                raise StorageFailure(self.failure)

        return finish
