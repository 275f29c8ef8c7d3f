"""Producer states across restarts: snapshots, and the batches since.

The replication core owns the states and updates them with every append. The log writes snapshots when it
rolls a segment and when it is closed, and restores the states after opening or truncating. Timestamps are
kept here because expiry (``producer.id.expiration.ms``) needs a clock, and the core has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock

from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import NO_PRODUCER, Millis, Offset
from tidelog.storage.durable import write_synced
from tidelog.storage.log.producer_snapshot import (
    SNAPSHOTS_KEPT,
    SnapshotEntry,
    decode_snapshot,
    encode_snapshot,
    snapshot_path,
)
from tidelog.wire.batch import RecordBatch

NO_TIMESTAMP: Millis = -1


class ProducerMemory:
    __slots__ = (
        "_folder",
        "_last_timestamps",
        "_outdated",
        "_snapshots",
        "_states",
        "_unwritten",
        "_writing",
    )

    def __init__(self, folder: Path, snapshots: list[Offset]) -> None:
        self._folder = folder
        self._states: ProducerStates | None = None
        self._last_timestamps: dict[int, Millis] = {}
        self._snapshots = snapshots
        """Offsets of the snapshots, oldest first."""
        self._unwritten: dict[Offset, bytes] = {}
        """Snapshots that a thread has yet to write. Files with the same names may be older."""
        self._outdated: set[Offset] = set()
        """Snapshots replaced by newer ones. Their files are removed once the newer ones are written."""
        self._writing = Lock()

    @property
    def known(self) -> bool:
        """Whether the log has any producers, in memory or in a snapshot."""
        return bool(self._last_timestamps or self._snapshots)

    def note(self, batch: RecordBatch) -> None:
        """Record the append of a producer's batch. The core updates the states itself."""
        self._last_timestamps[batch.producer_id] = batch.max_timestamp

    # ------------------------------------------------------------ snapshots

    def take_snapshot(self, offset: Offset) -> Callable[[], None] | None:
        """Take the states at ``offset``, the end of the log; the returned function writes them to a file.

        None if the states were not restored since the log was opened: then the existing snapshots and the log
        hold them.
        """
        if self._states is None:
            return None
        content = encode_snapshot(
            SnapshotEntry(entry, self._last_timestamps.get(entry.producer_id, NO_TIMESTAMP))
            for entry in self._states.entries()
        )
        self._unwritten[offset] = content
        if offset not in self._snapshots:
            self._snapshots = sorted([*self._snapshots, offset])
        for outdated in self._snapshots[:-SNAPSHOTS_KEPT]:
            self._unwritten.pop(outdated, None)
            self._outdated.add(outdated)
        self._snapshots = self._snapshots[-SNAPSHOTS_KEPT:]

        def write() -> None:
            with self._writing:
                if self._unwritten.get(offset) is not content:
                    return  # replaced by a newer one, or its batches were truncated
                write_synced(snapshot_path(self._folder, offset), content)
                del self._unwritten[offset]
                for old in list(self._outdated):
                    self._remove(old)

        return write

    def cut(self, end_offset: Offset) -> bool:
        """Remove the snapshots beyond ``end_offset``; False if there were none. It must happen at once: after
        new appends nothing would distinguish them from valid ones."""
        with self._writing:
            beyond = [offset for offset in (*self._snapshots, *self._outdated) if offset > end_offset]
            for offset in beyond:
                self._unwritten.pop(offset, None)
                self._remove(offset)
            self._snapshots = [offset for offset in self._snapshots if offset <= end_offset]
        return bool(beyond)

    def _remove(self, offset: Offset) -> None:
        snapshot_path(self._folder, offset).unlink(missing_ok=True)
        self._outdated.discard(offset)

    # ------------------------------------------------------------ restoring

    def begin_restore(self, states: ProducerStates, end_offset: Offset) -> Offset:
        """Load the newest readable snapshot into ``states``. Returns the offset from which the caller must
        ``replay`` the log; -1 if there is no snapshot: from the log's start."""
        self._states = states
        states.clear()
        self._last_timestamps.clear()
        for offset in reversed(self._snapshots):
            entries = self._load(offset) if offset <= end_offset else None
            if entries is not None:
                for entry, timestamp in entries:
                    states.put(entry)
                    self._last_timestamps[entry.producer_id] = timestamp
                return offset
        return -1

    def replay(self, batches: Iterable[RecordBatch]) -> None:
        states = self._states
        if states is not None:
            for batch in batches:
                if batch.producer_id != NO_PRODUCER:
                    states.append(batch)
                    self.note(batch)

    def _load(self, offset: Offset) -> list[SnapshotEntry] | None:
        unwritten = self._unwritten.get(offset)
        if unwritten is not None:
            return decode_snapshot(unwritten)
        try:
            return decode_snapshot(snapshot_path(self._folder, offset).read_bytes())
        except OSError:
            return None

    def last_offsets(self) -> dict[int, Offset] | None:
        """The last offset of each producer; None if the states were not restored since the log was opened."""
        if self._states is None:
            return None
        return {entry.producer_id: entry.last_offset for entry in self._states.entries()}

    # ------------------------------------------------------------ expiry

    def expire(self, before: Millis) -> int:
        """Forget producers whose last batch is older; returns how many. A producer whose batch has no
        timestamp stays."""
        silent = [
            producer for producer, last in self._last_timestamps.items() if NO_TIMESTAMP < last < before
        ]
        for producer in silent:
            del self._last_timestamps[producer]
            if self._states is not None:
                self._states.forget(producer)
        return len(silent)
