"""Background work of a log: syncs, checkpoints, removals, in order, in a thread.

The event loop submits work and continues. There are two kinds of work. Optional work (an index, a snapshot,
the removal of a file) is attempted: if the disk refuses it, the broker logs that and the log continues. A
failed sync is different: the kernel drops the pages it could not write, so the content of the disk is
unknown, and a second sync would succeed without meaning anything. From then on the log refuses appends until
the broker is restarted and reads the files.
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
from tidelog.storage.checkpoints import LEADER_EPOCHS, write_epochs, write_epochs_unsynced
from tidelog.storage.durable import sync_file, unlink_all
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
        "_epochs_unsynced",
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
        """Why the log refuses appends."""
        self._folder = folder
        self._durability = durability
        self._shared = shared
        self._jobs = JobQueue(shared.background, self.failed)
        self._writing_epochs = Lock()
        self._epochs = epochs_written
        self._epochs_written = epochs_written
        self._epochs_unsynced: Epochs | None = None
        """What the file holds if it was not synced."""
        self._deleted = False

    def failed(self, error: OSError) -> None:
        if not self._deleted:
            reason = error.strerror or error
            self.failure = f"{self._folder} failed: {reason}; check the disk and start the broker again"
            self._shared.any_failed = True

    def refused(self, what: str, error: OSError) -> StorageFailure:
        """The disk refused a change of the log. The caller may try again, unless the change could not be
        undone."""
        if isinstance(error, NotUndone):
            self.failed(error)
            return StorageFailure(self.failure)
        return StorageFailure(f"cannot {what} {self._folder}: {error.strerror or error}")

    def check(self) -> None:
        """Raise ``StorageFailure`` if the log has failed."""
        if self.failure:
            raise StorageFailure(self.failure)

    def abandon(self) -> None:
        """The log is deleted, and its folder will be. Pending work must not run: it would act on a new log of
        the same name."""
        self._deleted = True

    # ------------------------------------------------------------ work

    def sync_later(self, sync: Job, attempts: Sequence[Job | None], then: Job) -> None:
        """Sync in the background. Some other writes are attempted first, so that the sync covers them."""

        def run() -> None:
            for write in attempts:
                self.attempt(write)
            # Also for a deleted log: only the sync closes its files.
            with suppress(StorageFailure):  # the next append will raise it
                sync()
            then()

        self._jobs.submit(run)

    def attempt(self, job: Job | None) -> bool:
        """Run an optional job; False if the disk refused it."""
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
        """Run pending jobs in this thread."""
        self._jobs.finish()

    def remove(self, paths: list[Path], *, start_moved: bool = False) -> None:
        """Remove files that were renamed out of the log. A new log start is checkpointed first: until then
        the renamed files explain to recovery why the offsets are missing."""
        if paths:
            self._durability.names_changed()
            if start_moved:
                self._shared.after_checkpoint(lambda: self._attempt(lambda: unlink_all(paths)))
            else:
                self.attempt_later(lambda: unlink_all(paths))

    # ------------------------------------------------------------ epochs

    def checkpoint_epochs(self, epochs: Epochs, *, of_no_records: bool) -> None:
        """Schedule a write of the epochs. It happens before the recovery point moves. Those of a log without
        records are synced together with the first of them."""
        self._epochs = epochs
        write = self.write_epochs
        if of_no_records:
            self._durability.names_changed()
            write = self._write_epochs_unsynced
        self._shared.epochs.submit(lambda: self._attempt(write))

    def _write_epochs_unsynced(self) -> None:
        with self._writing_epochs:
            epochs = self._epochs
            if epochs is not None and epochs not in (self._epochs_unsynced, self._epochs_written):
                write_epochs_unsynced(self._folder / LEADER_EPOCHS, epochs)
                self._epochs_unsynced = epochs

    def write_epochs(self) -> None:
        with self._writing_epochs:
            epochs = self._epochs
            if epochs is None or epochs is self._epochs_written:
                return
            if epochs is self._epochs_unsynced:
                sync_file(self._folder / LEADER_EPOCHS)  # its name is synced with the others of the folder
            else:
                write_epochs(self._folder / LEADER_EPOCHS, epochs)
            self._epochs_written = epochs

    # ------------------------------------------------------------ syncs

    def begin_sync(self, end_offset: Offset, files: Sequence[BatchFile]) -> Callable[[], None]:
        """Returns a function that syncs ``files`` up to ``end_offset``. It blocks, must be called, and raises
        ``StorageFailure`` if the log has failed."""
        sync: Callable[[bool], None] | None = None
        try:
            sync = self._durability.begin(end_offset, files)
        except OSError as error:
            self.failed(error)

        def finish() -> None:
            # The recovery point may pass an epoch's first batch only when the epoch is checkpointed: recovery
            # does not read batches below the point.
            epochs_written = self.attempt(self.write_epochs)
            try:
                if sync is not None:
                    sync(epochs_written)
            except OSError as error:
                self.failed(error)
            if self.failure and not self._deleted:
                raise StorageFailure(self.failure)

        return finish
