"""What a log remembers of its producers across restarts: snapshots, and the batches since.

The replication core owns the states and keeps them in step with every append; the log only writes them down
when a segment is rolled and when it is closed, and tells them again after opening or truncating. Timestamps
are kept here because expiry (``producer.id.expiration.ms``) is about time, and the core has none.
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
        """Where there is one, oldest first."""
        self._unwritten: dict[Offset, bytes] = {}
        """Snapshots that a thread has still to write: what the folder has under their names may be older."""
        self._outdated: set[Offset] = set()
        """Snapshots that newer ones replace: once those are written, their files are removed."""
        self._writing = Lock()

    @property
    def known(self) -> bool:
        """Whether there is anything to remember, here or in a snapshot."""
        return bool(self._last_timestamps or self._snapshots)

    def note(self, batch: RecordBatch) -> None:
        """A batch of a producer was appended. The core updates the states itself, a moment later."""
        self._last_timestamps[batch.producer_id] = batch.max_timestamp

    # ------------------------------------------------------------ writing down

    def take_snapshot(self, offset: Offset) -> Callable[[], None] | None:
        """The states as they are at ``offset``, the end of the log: the returned call writes them down.

        None if nobody has asked for them since the log was opened: then they are in the snapshots there are
        and in the log, and not here.
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
                    return  # there is a newer one, or what it spoke of was cut off
                write_synced(snapshot_path(self._folder, offset), content)
                del self._unwritten[offset]
                for old in list(self._outdated):
                    self._remove(old)

        return write

    def cut(self, end_offset: Offset) -> bool:
        """Remove the snapshots that speak of more than there is below ``end_offset``; False if there were
        none. Here and now: once the log has grown again, nothing would tell them from those that are true."""
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

    # ------------------------------------------------------------ telling again

    def begin_restore(self, states: ProducerStates, end_offset: Offset) -> Offset:
        """Make ``states`` those of the newest snapshot that can be read; returns the offset from which on the
        log must be told to them (``replay``). -1: from its start, there is no snapshot."""
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
        """The last offset of each producer; None if nobody has asked for the states since opening the log."""
        if self._states is None:
            return None
        return {entry.producer_id: entry.last_offset for entry in self._states.entries()}

    # ------------------------------------------------------------ forgetting

    def expire(self, before: Millis) -> int:
        """Forget the producers whose last batch is older; returns how many. One whose batch came without a
        timestamp stays."""
        silent = [
            producer for producer, last in self._last_timestamps.items() if NO_TIMESTAMP < last < before
        ]
        for producer in silent:
            del self._last_timestamps[producer]
            if self._states is not None:
                self._states.forget(producer)
        return len(silent)
