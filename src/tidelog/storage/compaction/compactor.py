"""One compaction of one log: learn the last offset of every key, then rewrite the segments.

It runs from the beginning of the log to a sealed segment, oldest first, so that a value is always removed
before the tombstone that deleted it. A thread reads and writes. Between two jobs the event loop checks that
the log has not changed, and swaps the new segment in. So a compaction is a generator: the event loop resumes
it, and it yields jobs for a thread. It can be dropped at any point, and the process may crash at any point:
until a segment is swapped in (``segment_swap``) its files have no effect.

Only synced, committed and sealed segments are rewritten. The folder's checkpoints record that before the
first swap: recovery learns epochs from batches, and must not do so where compaction may have removed the
first batch of an epoch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from tidelog.core.log_port import StorageFailure
from tidelog.core.types import NO_PRODUCER, Millis, Offset
from tidelog.storage.background import Job
from tidelog.storage.compaction.batches import BatchCleaner, note_keys
from tidelog.storage.compaction.offset_map import OffsetMap
from tidelog.storage.durable import sync_data, sync_folder
from tidelog.storage.errors import CorruptLog
from tidelog.storage.log.batch_file import BatchFile
from tidelog.storage.log.file_log import FileLog
from tidelog.storage.log.indexes import RELATIVE_OFFSET_MAX
from tidelog.storage.log.segment import Segment
from tidelog.storage.log.segment_swap import CLEANED_SUFFIX
from tidelog.storage.resources import OpenFiles
from tidelog.wire.batch import RecordBatch


class SealedSegment(NamedTuple):
    segment: Segment
    end_offset: Offset


class Abandoned(Exception):
    """The compaction cannot continue: the log has changed, or the broker stops."""


class CompactionHost(Protocol):
    """What a compaction needs besides its log."""

    dedupe_bytes: int

    def is_there(self, log: FileLog) -> bool:
        """Whether the log still exists."""

    def read(self, size: int) -> None:
        """The thread calls this after reading ``size`` bytes. Sleeps to limit the speed, or raises
        ``Abandoned``."""

    def write_checkpoints(self) -> None:
        """Blocks until the checkpoints of the folder are up to date."""

    def run(self, work: Callable[[], None]) -> None:
        """Runs ``work``, unless the broker is stopping."""


@dataclass(slots=True)
class Compaction:
    log: FileLog
    sources: list[SealedSegment]
    """All segments that may be rewritten, from the beginning of the log."""
    first_dirty: Offset
    now_ms: Millis
    around: CompactionHost
    failure: str = ""
    """Why reading or writing files failed."""
    hopeless: bool = False
    """Files are damaged, so another attempt would fail too."""
    finished: bool = False
    bytes_before: int = 0
    """Size of the segments that were replaced."""
    bytes_after: int = 0
    """Size of the segments that replaced them."""
    _cuts: int = 0
    _end: Offset = 0
    """The map holds every key below this offset."""
    _full: bool = False
    _changed: bool = False
    """The new segment differs from its sources."""
    _offsets: OffsetMap = field(init=False)
    _producers: dict[int, Offset] = field(default_factory=dict)
    """The last offset of every producer that is still remembered."""
    _producers_here: dict[int, Offset] = field(default_factory=dict)
    """The last offset below ``_end`` of every producer in the dirty part."""

    def steps(self) -> Iterator[Job]:
        """The event loop runs each yielded job in a thread, then resumes."""
        self._cuts = self.log.cuts
        self._producers = self.log.last_offsets_of_producers() or {}
        with suppress(Abandoned):
            yield from self._learn_keys()
            self.log.expect_gaps()
            yield from self._do(self.around.write_checkpoints)
            for group in self._groups():
                yield from self._rewrite(group)
            yield from self._do(partial(sync_folder, self.log.folder))
            # Only after the sync: if a crash lost the new names, the old values would count as compacted.
            self.log.cleaned_to = self._end
            yield from self._do(self.around.write_checkpoints)
            self.finished = True

    def _do(self, work: Callable[[], None]) -> Iterator[Job]:
        """Run ``work`` in a thread. Raises ``Abandoned`` if it failed, or if the log has changed
        meanwhile."""
        if not (yield from self._done(work)):
            raise Abandoned

    def _done(self, work: Callable[[], None]) -> Generator[Job, None, bool]:
        """Like ``_do``, but returns False instead of raising. Unfinished work is never swapped in."""
        succeeded = False

        def attempt() -> None:
            nonlocal succeeded
            try:
                self.around.run(work)
                succeeded = True
            except CorruptLog as error:
                self.failure, self.hopeless = str(error), True
            except (StorageFailure, OSError) as error:
                self.failure = str(error)
            except Exception as error:
                self.failure, self.hopeless = f"{type(error).__name__} {error}".strip(), True

        yield attempt
        return succeeded and self.log.cuts == self._cuts and self.around.is_there(self.log)

    def _twins(self, segments: list[Segment]) -> list[BatchFile]:
        """Copies of the segments for a thread to read. Raises ``Abandoned`` if retention has deleted one of
        them."""
        if not self.log.segments.have(segments):
            raise Abandoned
        twins: list[BatchFile] = []
        try:
            for segment in segments:
                twins.append(segment.twin())
        except OSError as error:
            _close(twins)
            self.failure = str(error)
            raise Abandoned from None
        return twins

    # ------------------------------------------------------------ keys

    def _learn_keys(self) -> Iterator[Job]:
        self._offsets = OffsetMap(self.around.dedupe_bytes)
        self._end = self.first_dirty
        for segment, end in self.sources:
            if end > self.first_dirty and not self._full:
                (twin,) = self._twins([segment])
                try:
                    start = segment.locate(max(self.first_dirty, segment.base_offset))
                except (StorageFailure, OSError) as error:
                    twin.close_file()
                    self.failure = str(error)
                    raise Abandoned from None
                try:
                    yield from self._do(partial(self._learn_keys_of, twin, start, end))
                finally:
                    twin.close_file()

    def _learn_keys_of(self, twin: BatchFile, start: tuple[int, Offset], end: Offset) -> None:
        for batch in self._batches(twin, *start):
            if not note_keys(batch, self._offsets):
                self._end = batch.base_offset
                self._full = True
                return
            if batch.producer_id != NO_PRODUCER:
                self._producers_here[batch.producer_id] = batch.last_offset
        self._end = end

    def _batches(self, twin: BatchFile, position: int, expected: Offset) -> Iterator[RecordBatch]:
        done = position
        for at, batch in twin.scan(position, expected):
            yield batch
            if at - done > 1 << 18:
                self.around.read(at - done)
                done = at
        self.around.read(twin.size - done)

    # ------------------------------------------------------------ segments

    def _groups(self) -> list[list[SealedSegment]]:
        """Groups of sources that together fit one segment."""
        groups: list[list[SealedSegment]] = []
        size = 0
        for source in self.sources:
            segment = source.segment
            if segment.base_offset >= self._end:
                break
            size += segment.size
            if (
                not groups
                or size > self.log.config.segment_bytes
                or source.end_offset - groups[-1][0].segment.base_offset > RELATIVE_OFFSET_MAX
            ):
                groups.append([])
                size = segment.size
            groups[-1].append(source)
        return groups

    def _rewrite(self, group: list[SealedSegment]) -> Iterator[Job]:
        obsolete = [source.segment for source in group]
        twins = self._twins(obsolete)
        interval = self.log.config.index_interval_bytes
        # Not counted among the event loop's open files: a thread writes it.
        cleaned = Segment(
            self.log.folder, obsolete[0].base_offset, OpenFiles(1), interval, suffix=CLEANED_SUFFIX
        )
        cleaned.sparse = True
        self._changed = len(group) > 1
        try:
            goes_on = yield from self._done(partial(self._write, twins, group[-1].end_offset, cleaned))
        finally:
            _close(twins)
        if goes_on and self._changed and self._swap(obsolete, cleaned):
            return
        yield partial(_discard, cleaned)
        if self._changed or not goes_on:
            raise Abandoned

    def _swap(self, obsolete: list[Segment], cleaned: Segment) -> bool:
        size = sum(segment.size for segment in obsolete)
        try:
            if not self.log.replace(obsolete, cleaned):
                return False
        except StorageFailure as failure:
            self.failure = str(failure)
            return False
        self.bytes_before += size
        self.bytes_after += cleaned.size
        return True

    def _write(self, twins: list[BatchFile], end: Offset, cleaned: Segment) -> None:
        cleaner = BatchCleaner(self._offsets, self.now_ms, self.log.config.delete_retention_ms)
        try:
            cleaned.create()
            for twin in twins:
                for batch in self._batches(twin, 0, twin.base_offset):
                    left: RecordBatch | None = batch
                    if batch.next_offset <= self._end:
                        needed = batch.next_offset == end or self._is_last_of_producer(batch)
                        left = cleaner.clean(batch, keep_header=needed)
                    if left is not batch:
                        self._changed = True
                    if left is not None:
                        cleaned.append(left)
            modified = os.fstat(twins[-1].descriptor()).st_mtime_ns
            sync_data(cleaned.descriptor())
            cleaned.save_indexes(cleaned.seal())
            # Retention uses the file's time where records have no timestamps.
            os.utime(cleaned.path, ns=(modified, modified))
            sync_folder(self.log.folder)
        finally:
            cleaned.close()

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        """Whether the batch is the last of a producer that is still remembered: its header holds the sequence
        number. Batches beyond the end of this compaction do not count, because they may be truncated."""
        producer = batch.producer_id
        if producer not in self._producers:
            return False
        if producer in self._producers_here:
            return batch.last_offset == self._producers_here[producer]
        last = self._producers[producer]
        return last >= self._end or last == batch.last_offset


def _close(twins: list[BatchFile]) -> None:
    for twin in twins:
        twin.close_file()


def _discard(cleaned: Segment) -> None:
    for path in (cleaned.path, cleaned.index.path, cleaned.time_index.path):
        with suppress(OSError):
            path.unlink(missing_ok=True)
