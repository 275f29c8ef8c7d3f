"""One segment of a log: a file of batches and its two sparse indexes.

The indexes follow the batches (``note``), never the other way round. An index that contradicts the file is
rebuilt at once. Batches that contradict each other are corrupt and are not served.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tidelog.core.log_port import UNBOUNDED
from tidelog.core.types import NO_EPOCH, LeaderEpoch, Millis, Offset
from tidelog.storage.durable import unlink_all
from tidelog.storage.errors import CorruptLog
from tidelog.storage.log.batch_file import BatchFile
from tidelog.storage.log.indexes import RELATIVE_OFFSET_MAX, IndexEntry, OffsetIndex, TimeEntry, TimeIndex
from tidelog.storage.log.renames import Renames
from tidelog.storage.resources import OpenFiles
from tidelog.wire.batch import RecordBatch, size_of

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
NO_TIMESTAMP: Millis = -1
READERS_MAX = 16
"""How many ends of reads are remembered."""


def file_name(offset: Offset, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


class Segment(BatchFile):
    __slots__ = (
        "_interval_bytes",
        "_read_to",
        "bytes_since_entry",
        "corruption",
        "first_timestamp",
        "index",
        "max_timestamp",
        "max_timestamp_offset",
        "time_index",
    )

    def __init__(
        self,
        folder: Path,
        base_offset: Offset,
        open_files: OpenFiles,
        index_interval_bytes: int,
        *,
        suffix: str = "",
    ) -> None:
        """``suffix`` is appended to the file names while, or after, they are not part of the log."""
        super().__init__(folder / file_name(base_offset, LOG_SUFFIX + suffix), base_offset, open_files)
        self.index = OffsetIndex(folder, file_name(base_offset, INDEX_SUFFIX + suffix), base_offset)
        self.time_index = TimeIndex(folder, file_name(base_offset, TIME_INDEX_SUFFIX + suffix), base_offset)
        self.corruption: CorruptLog | None = None
        """The error found when the whole file was read: timestamps beyond it are unknown."""
        self._interval_bytes = index_interval_bytes
        self._read_to: dict[Offset, int] = {}
        """Where the last reads ended, offset and position: nearly always the next ones begin there."""
        self._forget_contents()

    def _forget_contents(self) -> None:
        self.bytes_since_entry = 0
        self.first_timestamp: Millis = NO_TIMESTAMP
        """Timestamp of the first batch, from which ``segment.ms`` counts."""
        self.max_timestamp: Millis = NO_TIMESTAMP
        self.max_timestamp_offset: Offset = self.base_offset
        """The last offset of the first batch that has the largest timestamp."""

    # ------------------------------------------------------------ lifecycle

    def create(self, *, in_new_folder: bool = False) -> None:
        """Create the file of a new, active segment."""
        self.start_indexes()
        if not in_new_folder:
            # Remove index files of an earlier segment with this name that could not be renamed with it.
            self.remove_index_files()
        self.open_for_writing(create=True)

    def activate(self) -> None:
        """Make this segment, the last of its log, the active one again."""
        self.index.grow()
        self.time_index.grow()
        self.open_for_writing()

    def seal(self) -> tuple[bytes, bytes]:
        """Stop writing to this segment. Pass the returned value to ``save_indexes``."""
        if self.max_timestamp > NO_TIMESTAMP:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        if self.active:
            self.active = False
            self._open_files.used(self)
        return self.index.seal(), self.time_index.seal()

    def save_indexes(self, sealed: tuple[bytes, bytes]) -> None:
        # The time index first: times beyond the offset index are read from the log.
        self.time_index.save(sealed[1])
        self.index.save(sealed[0])

    def save_unsaved(self) -> None:
        self.time_index.save_unsaved()
        self.index.save_unsaved()

    def remove_index_files(self) -> None:
        """The files may be ahead of the log after a truncation. Until the segment is sealed its indexes are
        in memory."""
        self.index.remove_file()
        self.time_index.remove_file()

    def release(self) -> None:
        """Keep nothing in memory that the files have as well."""
        self.index.release()
        self.time_index.release()

    def close_file(self) -> None:
        super().close_file()
        self.release()

    def close(self) -> None:
        self.active = False
        self._open_files.forget(self)
        self.close_file()

    def mark_deleted(self, renames: Renames) -> None:
        """Rename the files out of the log. They stay open, because the renames may still be undone."""
        renames.mark_deleted(self.path)
        for index in (self.index, self.time_index):
            # An index without its segment is harmless: the next start removes it, and so does a new segment
            # of this name.
            with suppress(OSError):
                renames.mark_deleted(index.path)

    def remove_files(self) -> None:
        """The log first: an index without its log is ignored."""
        self.close()
        unlink_all((self.path, self.index.path, self.time_index.path))

    def copy_positions_from(self, written: Segment) -> None:
        """Take over size and timestamps of ``written``, whose files are renamed to this segment's names."""
        self.size = written.size
        self.sparse = written.sparse
        self.first_timestamp = written.first_timestamp
        self.max_timestamp = written.max_timestamp
        self.max_timestamp_offset = written.max_timestamp_offset
        self.bytes_since_entry = written.bytes_since_entry

    # ------------------------------------------------------------ writing

    def append(self, batch: RecordBatch) -> None:
        position = self.size
        self.write(batch.data)
        self.note(batch, position)

    def note(self, batch: RecordBatch, position: int) -> None:
        """Add the batch at ``position`` to timestamps and indexes, as Kafka does. The timestamp of a batch
        that compaction left without records does not count."""
        timestamp = batch.max_timestamp
        if position == 0:
            self.first_timestamp = timestamp
        if timestamp > self.max_timestamp and batch.record_count:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = batch.next_offset - 1
        if self.bytes_since_entry > self._interval_bytes:
            self.index.append(batch.next_offset - 1, position)
            if self.max_timestamp > NO_TIMESTAMP:
                self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            self.bytes_since_entry = 0
        self.bytes_since_entry += len(batch.data)

    def index_is_full(self, bytes_max: int) -> bool:
        """Whether there is no room for one more entry and for the one that sealing may add."""
        return self.index.size + 8 > bytes_max or self.time_index.size + 24 > bytes_max

    def truncate(self, position: int, end_offset: Offset) -> None:
        """Drop everything from ``position``, where the batch of ``end_offset`` begins. After an OSError
        nothing has changed."""
        self.remove_index_files()
        self._read_to.clear()
        self.cut(position)
        self.index.truncate(position)
        self.time_index.truncate(end_offset)
        self.corruption = None
        try:
            self.load_contents()
        except CorruptLog as error:
            self.corruption = error
        except OSError as error:
            self.corruption = CorruptLog(self.path, position, f"cannot be read: {error.strerror or error}")

    # ------------------------------------------------------------ reading

    def read(self, start: Offset, end: Offset, max_bytes: int = UNBOUNDED) -> list[RecordBatch]:
        """Batches from the one that holds ``start``, none beyond ``end``: the first of any size, then as many
        as fit, perhaps fewer. ``CorruptLog`` if ``start`` is not in the segment."""
        known = self._read_to.pop(start, None)
        position, expected = self.locate(start) if known is None else (known, start)
        batches = self.read_at(position, expected, max_bytes)
        if not batches:
            raise CorruptLog(self.path, self.size, f"the file ends before offset {start}")
        while batches and batches[-1].next_offset > end:
            batches.pop()
        if batches:
            self._remember(batches[-1].next_offset, position + size_of(batches))
        return batches

    def _remember(self, end: Offset, position: int) -> None:
        read_to = self._read_to
        read_to[end] = position
        if len(read_to) > READERS_MAX:
            del read_to[next(iter(read_to))]

    def verify_epochs(self, batches: list[RecordBatch], epoch_at: Callable[[Offset], LeaderEpoch]) -> None:
        """The CRC does not cover the leader epoch, so compare that of each batch with the epoch cache."""
        if not batches:
            return
        expected = epoch_at(batches[0].next_offset - 1)
        several = expected != epoch_at(batches[-1].next_offset - 1)
        for batch in batches:
            if several:
                expected = epoch_at(batch.next_offset - 1)
            found = batch.leader_epoch
            if found != expected and NO_EPOCH not in (expected, found):
                position, _ = self.locate(batch.base_offset)
                reason = f"leader epoch {found} at offset {batch.base_offset}, which is of epoch {expected}"
                raise CorruptLog(self.path, position, reason)

    def locate(self, offset: Offset) -> tuple[int, Offset]:
        """Position and base offset of the batch that holds ``offset``; beyond the last: the segment's end."""
        return self.walk(*self._start_of_search(offset), offset)

    def end_if_sound(self) -> Offset | None:
        """The end offset according to the headers; None if they are inconsistent."""
        everything = self.base_offset + RELATIVE_OFFSET_MAX + 1
        try:
            return self.locate(everything)[1]
        except CorruptLog:
            return None

    def end_before(self, position: int) -> Offset:
        """The end offset of the batch before ``position``. In a sparse file the next batch may begin
        later."""
        entry = self.index.before(position - 1) if position else None
        base_offset = self._base_offset_at(entry) if entry is not None else None
        start, end = (0, self.base_offset)
        if entry is not None and base_offset is not None:
            start, end = entry.position, base_offset
        for at, batch in self.scan(start, end):
            if at >= position:
                break
            end = batch.next_offset
        return end

    def since(self, timestamp: Millis, start: Offset) -> Iterator[RecordBatch]:
        """The batches from ``start`` on, without those that are older according to the time index."""
        entry = self.time_index.lookup(timestamp)
        if entry is not None and not self._is_true(entry):
            self.rebuild_indexes()
            entry = self.time_index.lookup(timestamp)
        if entry is not None:
            start = max(start, entry.last_offset)
        for _, batch in self.scan(*self.locate(start)):
            yield batch

    def _start_of_search(self, offset: Offset) -> tuple[int, Offset]:
        """Position and base offset of a batch not far before ``offset``."""
        entry = self.index.lookup(offset)
        if entry is not None and self._base_offset_at(entry) is None:
            self.rebuild_indexes()
            entry = self.index.lookup(offset)
        if entry is None:
            return 0, self.base_offset
        base_offset = self._base_offset_at(entry)
        if base_offset is None:
            raise CorruptLog(self.path, entry.position, "the file changes while it is read")
        return entry.position, base_offset

    def _base_offset_at(self, entry: IndexEntry) -> Offset | None:
        """The base offset of the batch that an index entry points to; None if there is no such batch."""
        header = self.header_at(entry.position)
        return header.base_offset if header is not None and header.last_offset == entry.last_offset else None

    def _is_true(self, entry: TimeEntry) -> bool:
        position, _ = self.locate(entry.last_offset)
        header = self.header_at(position)
        return (
            header is not None
            and header.last_offset == entry.last_offset
            and header.max_timestamp == entry.timestamp
        )

    # ------------------------------------------------------------ loading and rebuilding

    def load_sealed(self, *, trusted: bool) -> str:
        """Load what is needed to read a sealed segment. Returns what was wrong with it.

        After a crash the indexes may be from before the last appends to the segment. The rest is read from
        the log: with too small a largest timestamp retention would delete the segment too early.
        """
        self.size = os.stat(self.path).st_size
        fault = self._index_fault()
        if not fault and not trusted:
            try:
                self.load_contents()
            except CorruptLog as error:
                fault = str(error)
        if fault:
            self.rebuild_indexes()
            fault += ": indexes rebuilt"
            if self.corruption is not None:
                fault += f", but {self.corruption}"
        elif trusted:
            last = self.time_index.last
            if last is not None:
                self.max_timestamp, self.max_timestamp_offset = last
        self.release()
        return fault

    def _index_fault(self) -> str:
        """Why the indexes must be rebuilt; empty if they need not be. Checks their size and the last entry;
        readers check the other entries when they follow them."""
        for index in (self.index, self.time_index):
            fault = index.file_fault()
            if fault:
                return f"{index.path.name} {fault}"
        last = self.time_index.last
        try:
            if self._has_timestamps() if last is None else self.size and not self._is_true(last):
                return f"{self.time_index.path.name} does not end as its segment does"
        except CorruptLog as error:
            return str(error)
        return ""

    def _has_timestamps(self) -> bool:
        """Whether the batches have timestamps. Nearly always the first batch answers this; compaction may
        have left none with records."""
        return any(batch.record_count for _, batch in self.scan(0, self.base_offset))

    def load_contents(self) -> Offset:
        """Learn from the file what the indexes do not hold; returns the segment's end offset.

        Reads only the batches after the last index entries, because the entries cover everything before.
        ``CorruptLog`` if that does not lead to the end of the file.
        """
        self._forget_contents()
        first = self.header_at(0)
        if first is not None:
            self.first_timestamp = first.max_timestamp
        last_time = self.time_index.last
        if last_time is not None:
            self.max_timestamp, self.max_timestamp_offset = last_time
        start, end = self._start_of_search(self.base_offset + RELATIVE_OFFSET_MAX)
        for _, batch in self.scan(start, end):
            end = batch.next_offset
            if batch.max_timestamp > self.max_timestamp and batch.record_count:
                self.max_timestamp, self.max_timestamp_offset = batch.max_timestamp, end - 1
        self.bytes_since_entry = self.size - start
        return end

    def start_indexes(self) -> None:
        """Start empty indexes. The caller then calls ``note`` for every batch."""
        self.index.clear()
        self.time_index.clear()
        self._forget_contents()

    def rebuild_indexes(self) -> None:
        """Read the file and rebuild its indexes, up to the first invalid batch."""
        self.start_indexes()
        self.corruption = None
        try:
            for position, batch in self.scan(0, self.base_offset):
                self.note(batch, position)
        except CorruptLog as error:
            self.corruption = error
        if not self.active:
            # A full disk is no problem here: memory keeps the indexes.
            with suppress(OSError):
                self.save_indexes(self.seal())
