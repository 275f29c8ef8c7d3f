"""One compaction of one log: learn the last offset of every key, then rewrite the segments without the rest.

It goes from the beginning of the log to a sealed segment, the oldest first, so that a value is always gone
before the tombstone that deleted it. Reading and writing happen in a thread; between two such jobs the event
loop looks whether the log is still the one that was read, and puts what was written in its place. So a
compaction is a generator: it is resumed by the event loop and yields what a thread shall do in between. It
can be dropped at any point, and so can the process: until a segment is swapped in (``segment_swap``) nothing
that was written counts.

Only what is synced, committed and sealed is rewritten. Before the first swap the folder's checkpoints say so:
recovery reads batches to learn epochs, and must not do that where the first batch of an epoch may be gone.
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
    """There is no use in going on: the log has changed, or the broker ends."""


class CompactionHost(Protocol):
    """What a compaction needs besides its log."""

    dedupe_bytes: int

    def is_there(self, log: FileLog) -> bool:
        """It has not been deleted."""

    def read(self, size: int) -> None:
        """Called by the thread after so many bytes: waits if that was too fast, or raises ``Abandoned``."""

    def write_checkpoints(self) -> None:
        """Blocks until the checkpoints of the folder say what is true now."""

    def run(self, work: Callable[[], None]) -> None:
        """Does it, unless the broker ends."""


@dataclass(slots=True)
class Compaction:
    log: FileLog
    sources: list[SealedSegment]
    """Everything that may be rewritten, from the beginning of the log."""
    first_dirty: Offset
    now_ms: Millis
    around: CompactionHost
    failure: str = ""
    """Why it did not succeed, if the files are to blame."""
    hopeless: bool = False
    """Because they are damaged: they will be the next time."""
    finished: bool = False
    bytes_before: int = 0
    """The size of the segments that were replaced,"""
    bytes_after: int = 0
    """and of what replaced them."""
    _cuts: int = 0
    _end: Offset = 0
    """The map knows every key below."""
    _full: bool = False
    _changed: bool = False
    """What was written differs from what it was made from."""
    _offsets: OffsetMap = field(init=False)
    _producers: dict[int, Offset] = field(default_factory=dict)
    """The last offset of every producer that is still remembered,"""
    _producers_here: dict[int, Offset] = field(default_factory=dict)
    """and of those that wrote to what is dirty, below ``_end``."""

    def steps(self) -> Iterator[Job]:
        """To be resumed by the event loop when what it yields has been done by a thread."""
        self._cuts = self.log.cuts
        self._producers = self.log.last_offsets_of_producers() or {}
        with suppress(Abandoned):
            yield from self._learn_keys()
            self.log.expect_gaps()
            yield from self._do(self.around.write_checkpoints)
            for group in self._groups():
                yield from self._rewrite(group)
            yield from self._do(partial(sync_folder, self.log.folder))
            # Only now: had the names of the new segments been lost, old values would count as compacted.
            self.log.cleaned_to = self._end
            yield from self._do(self.around.write_checkpoints)
            self.finished = True

    def _do(self, work: Callable[[], None]) -> Iterator[Job]:
        """Have it done by a thread. ``Abandoned`` if there is no point in going on after that."""
        if not (yield from self._done(work)):
            raise Abandoned

    def _done(self, work: Callable[[], None]) -> Generator[Job, None, bool]:
        """The same; False instead. What was not done to its end, for whatever reason, is never swapped in."""
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
        """The segments, for a thread to read. They may have been deleted from the front of the log."""
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
        """What becomes one segment: as many as fit one."""
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
        # Not among the loop's open files: a thread writes it.
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
            # Where records have no timestamps, retention goes by this.
            os.utime(cleaned.path, ns=(modified, modified))
            sync_folder(self.log.folder)
        finally:
            cleaned.close()

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        """Its header says how the sequence of its producer goes on, if that is still remembered. What was
        written beyond the end of this compaction does not count: it may be truncated."""
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
