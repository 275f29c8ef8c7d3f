"""A partition's log in Kafka's segment files: implements ``core.log_port`` on disk.

Rules of this file:

* An append is one write to the page cache, stamped in place; it never waits for a disk. Work that waits
  (syncs, checkpoints, removals) goes to ``upkeep``, which does it in order in a thread.
* ``start_offset``, ``end_offset`` and the tail change only after the files did: a failed write leaves the log
  as it was and raises ``StorageFailure``.
* Before records are dropped, everything that refers to them is updated or removed: recovery point, snapshots,
  index files.
* Offsets may be missing where compaction removed records, here or on the leader. But a segment always ends
  where the next begins: compaction keeps the last batch of a segment, if necessary without records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tidelog.core.log_port import UNBOUNDED, Batch, StorageFailure
from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import (
    NO_PRODUCER,
    InvariantViolation,
    LeaderEpoch,
    Millis,
    Offset,
    TopicId,
    TopicPartition,
)
from tidelog.settings.broker import Flush
from tidelog.settings.topic import LogConfig
from tidelog.storage.checkpoints import NEVER_CLEANED
from tidelog.storage.log.durability import Durability
from tidelog.storage.log.indexes import RELATIVE_OFFSET_MAX
from tidelog.storage.log.keyed_records import rest_of
from tidelog.storage.log.producers import ProducerMemory
from tidelog.storage.log.recovery import OpenedLog
from tidelog.storage.log.renames import Renames
from tidelog.storage.log.segment import Segment
from tidelog.storage.log.segment_list import Segments
from tidelog.storage.log.segment_swap import swap_in
from tidelog.storage.log.tail import Tail
from tidelog.storage.log.timestamps import TimestampSearch, first_since, with_max_timestamp
from tidelog.storage.log.upkeep import Upkeep
from tidelog.storage.partition_metadata import NAME as PARTITION_METADATA
from tidelog.storage.partition_metadata import write_topic_id
from tidelog.storage.resources import Shared
from tidelog.wire.batch import RecordBatch
from tidelog.wire.records import leader_change_batch

REPLAYED_BYTES = 1 << 20
"""This much of the log's end is replayed into the producer states even if a snapshot covers it: a snapshot
holds only the last batch of each producer, but a client may resend any of its last five."""
_NEVER: Millis = 1 << 62


class LogDescription(NamedTuple):
    tp: TopicPartition
    size_bytes: int
    segments: int
    start_offset: Offset
    end_offset: Offset
    recovery_point: Offset


class FileLog:
    __slots__ = (
        "_active",
        "_clean_state",
        "_durability",
        "_gaps_are_checkpointed",
        "_index_may_fill",
        "_owes_checkpoint",
        "_producers",
        "_roll_timestamp",
        "_segment_bytes",
        "_shared",
        "_sync_each_append",
        "_tail",
        "_upkeep",
        "cleaned_to",
        "config",
        "end_offset",
        "epochs",
        "folder",
        "segments",
        "start_offset",
        "topic_id",
        "tp",
    )
    rest_of = staticmethod(rest_of)

    def __init__(
        self, tp: TopicPartition, folder: Path, opened: OpenedLog, config: LogConfig, shared: Shared
    ) -> None:
        self.tp = tp
        self.folder = folder
        self.topic_id = opened.topic_id
        self.start_offset = opened.start_offset
        self.end_offset = opened.end_offset
        self.epochs = opened.epochs
        self.cleaned_to = opened.cleaned_to
        """Below this offset no two records have the same key. Unless it is ``NEVER_CLEANED``, offsets may be
        missing."""
        self.segments = Segments(opened.segments)
        self._active = self.segments.active
        self._shared = shared
        self._durability = Durability(folder, opened.recovery_point, shared.names, new=opened.new)
        self._producers = ProducerMemory(folder, opened.snapshots)
        self._tail = Tail(self.end_offset, shared.tails, shared.tail_bytes)
        written = None if opened.epochs_differ else self.epochs.entries
        self._upkeep = Upkeep(folder, self._durability, written, shared)
        self._clean_state = (self.end_offset, self._durability.cuts) if opened.clean else None
        self._gaps_are_checkpointed = self.cleaned_to != NEVER_CLEANED
        self._owes_checkpoint = opened.owes_checkpoint
        self.configure(config)
        if opened.findings:
            self._durability.names_changed()
        if opened.epochs_differ:
            self.epochs_changed()
        self._upkeep.remove(self._drop_below_start())

    def configure(self, config: LogConfig) -> None:
        self.config = config
        self._segment_bytes = config.segment_bytes
        self._sync_each_append = config.flush is Flush.ALWAYS
        if config.flush is Flush.INTERVAL:
            self._shared.flushed_by_interval[self] = None
        else:
            self._shared.flushed_by_interval.pop(self, None)
        entries_max = config.segment_bytes // (config.index_interval_bytes + 1) + 2
        self._index_may_fill = entries_max * 12 > config.segment_index_bytes
        self._note_roll_time()

    def identify(self, topic_id: TopicId) -> None:
        try:
            write_topic_id(self.folder, topic_id)
        except OSError as error:
            raise StorageFailure(
                f"cannot write {error.filename or self.folder}: {error.strerror or error}"
            ) from None
        self.topic_id = topic_id
        self._durability.also_sync(self.folder / PARTITION_METADATA)
        self._clean_state = None

    # ------------------------------------------------------------ appending

    def append_as_leader(self, batch: Batch, epoch: LeaderEpoch) -> RecordBatch:
        assert isinstance(batch, RecordBatch)
        batch.stamp(self.end_offset, epoch)
        self._append(batch)
        return batch

    def append_as_follower(self, batch: Batch) -> None:
        assert isinstance(batch, RecordBatch)
        if batch.base_offset != self.end_offset:
            if batch.base_offset < self.end_offset:
                raise InvariantViolation(
                    f"offset {batch.base_offset} was appended to {self.tp}, which ends at {self.end_offset}"
                )
            if not self._gaps_are_checkpointed:
                self.expect_gaps()
                self._shared.checkpoint_now()
                self._gaps_are_checkpointed = True
        self._append(batch)

    def append_leader_change(self, epoch: LeaderEpoch) -> RecordBatch:
        leader = self._shared.broker_id
        content = leader_change_batch(epoch, leader, (leader,), self._shared.clock())
        return self.append_as_leader(RecordBatch.parse(bytearray(content)), epoch)

    def _append(self, batch: RecordBatch) -> None:
        if self._upkeep.failure or self._owes_checkpoint:
            self._upkeep.check()
            self._settle()
        active = self._active
        size = active.size
        if size and (
            size + len(batch.data) > self._segment_bytes
            or batch.max_timestamp > self._roll_timestamp
            or batch.next_offset - active.base_offset > RELATIVE_OFFSET_MAX
            or (self._index_may_fill and active.index_is_full(self.config.segment_index_bytes))
        ):
            active = self._roll()
            size = 0
        active.append(batch)
        self._tail.push(batch)
        self.end_offset = batch.next_offset
        if batch.producer_id != NO_PRODUCER:
            self._producers.note(batch)
        if self._sync_each_append:
            self._shared.dirty.add(self)
        if not size:
            self._note_roll_time()

    def _note_roll_time(self) -> None:
        """``segment.ms`` counts from the first record of a segment, by the records' own time."""
        first = self._active.first_timestamp
        self._roll_timestamp = first + self.config.roll_ms if first >= 0 else _NEVER

    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty."""
        if self._active.size:
            self._roll()

    def _roll(self) -> Segment:
        sealed, base = self._active, self.end_offset
        created = self._segment(base)
        self._upkeep.check()
        try:
            sealed.trim()
            created.create()
        except OSError as error:
            raise self._upkeep.refused("roll", error) from None
        for segment in self.segments:
            segment.release()
        indexes = sealed.seal()
        self.segments.add(created)
        self._active = created
        self._clean_state = None
        self._durability.names_changed()
        # Indexes and snapshot are optional, so a full disk may refuse them: without them the next start reads
        # more.
        self._upkeep.sync_later(
            self._upkeep.begin_sync(base, self.segments.starting_with(self.recovery_point)[:-1]),
            [lambda: sealed.save_indexes(indexes), self._producers.take_snapshot(base)],
            then=self._shared.checkpoint_soon,
        )
        return created

    def _segment(self, base_offset: Offset) -> Segment:
        interval = self.config.index_interval_bytes
        segment = Segment(self.folder, base_offset, self._shared.open_files, interval)
        segment.sparse = self.cleaned_to != NEVER_CLEANED
        return segment

    # ------------------------------------------------------------ reading

    def read(self, start: Offset, end: Offset, max_bytes: int = UNBOUNDED) -> Sequence[RecordBatch]:
        tail = self._tail
        if start >= tail.first_offset:
            return tail.read(start, end, max_bytes)
        return self._read_files(start, min(end, self.end_offset), max_bytes)

    def _read_files(self, start: Offset, end: Offset, max_bytes: int) -> list[RecordBatch]:
        if start < self.start_offset:
            raise InvariantViolation(f"{self.tp} starts at {self.start_offset}, {start} cannot be read")
        if start >= end:
            return []
        segment = self.segments.holding(start)
        with self._reading():
            batches = segment.read(start, end, max_bytes)
        if self._shared.verify_epochs:
            segment.verify_epochs(batches, self.epochs.epoch_at)
        return batches

    def offset_for_timestamp(self, timestamp: Millis) -> TimestampSearch:
        """The first record with this timestamp or a later one."""
        return self._search(first_since(self.segments, timestamp, self.start_offset))

    def offset_of_max_timestamp(self) -> TimestampSearch:
        """The first record with the largest timestamp (ListOffsets with -3)."""
        return self._search(with_max_timestamp(self.segments, self.start_offset))

    def _search(self, search: TimestampSearch) -> TimestampSearch:
        with self._reading():
            return (yield from search)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = error.filename or self.folder
            raise StorageFailure(f"cannot read {where}: {error.strerror or error}") from None

    # ------------------------------------------------------------ truncation

    def truncate_to(self, offset: Offset) -> None:
        if offset >= self.end_offset:
            return
        if offset <= self.start_offset:
            self.restart_at(self.start_offset)
            return
        segment = self.segments.holding(offset)
        with self._reading():
            position, end = segment.locate(offset)
            if segment.sparse:
                end = segment.end_before(position)
        if end < self.start_offset:
            # A batch that begins below the log's start and ends beyond ``offset`` is removed whole.
            self.restart_at(self.start_offset)
            return
        self._upkeep.remove(self._drop(end, end, lambda: self.segments.truncate(segment, position, end)))
        self.end_offset = end
        self._tail.truncate(end)

    def restart_at(self, offset: Offset) -> None:
        fresh, start = self._segment(offset), self.start_offset
        # If the checkpointed start stayed above ``offset``, new records would be below the log's start.
        self._owes_checkpoint |= offset < start
        self.start_offset = min(offset, start)
        try:
            dropped = self._drop(min(offset, self.recovery_point), -1, lambda: self.segments.restart(fresh))
        except StorageFailure:
            self.start_offset = start
            raise
        self.start_offset = self.end_offset = offset
        self._tail.clear(offset)
        self._upkeep.remove(dropped, start_moved=True)

    def _drop(self, end: Offset, snapshots: Offset, drop: Callable[[], list[Path]]) -> list[Path]:
        """Update everything that refers to records at or beyond ``end``, then drop the files."""
        self._upkeep.check()
        cleaned, self.cleaned_to = self.cleaned_to, min(self.cleaned_to, end)
        self._owes_checkpoint |= self._durability.cut(end) or end < cleaned
        self._settle()
        try:
            if self._producers.cut(snapshots):
                self._durability.names_changed()
            dropped = drop()
        except OSError as error:
            raise self._upkeep.refused("cut", error) from None
        self._active = self.segments.active
        self._durability.names_changed()
        self._note_roll_time()
        return dropped

    def _settle(self) -> None:
        """Write checkpoints that an earlier failed write left outdated, before anything else changes."""
        if self._owes_checkpoint:
            self._shared.checkpoint_now()
            self._owes_checkpoint = False

    def advance_start(self, offset: Offset) -> None:
        if offset > self.end_offset:
            raise InvariantViolation(f"{self.tp} ends at {self.end_offset} and cannot start at {offset}")
        if offset > self.start_offset:
            self.start_offset = offset
            self._upkeep.remove(self._drop_below_start(), start_moved=True)
            self._shared.checkpoint_soon()

    def _drop_below_start(self) -> list[Path]:
        renames = Renames()
        self._upkeep.attempt(lambda: self.segments.drop_below(self.start_offset, renames))
        return renames.deleted

    # ------------------------------------------------------------ compaction

    def expect_gaps(self) -> None:
        """From now on offsets may be missing. The caller must checkpoint that before the first swap, for the
        next recovery."""
        self.cleaned_to = max(self.cleaned_to, 0)
        for segment in self.segments:
            segment.sparse = True

    @property
    def cuts(self) -> int:
        """How often the log was truncated. Compaction compares it to see whether its copy is outdated."""
        return self._durability.cuts

    def replace(self, obsolete: list[Segment], cleaned: Segment) -> bool:
        """Replace the obsolete segments by ``cleaned``. Returns False if the log no longer has all of
        them."""
        if not self.segments.have(obsolete):
            return False
        end = self.segments.end_of(obsolete[-1])
        replacement = self._segment(cleaned.base_offset)
        replacement.copy_positions_from(cleaned)
        self._upkeep.check()
        try:
            self._upkeep.remove(swap_in(obsolete, replacement))
        except OSError as error:
            raise self._upkeep.refused("swap segments of", error) from None
        self.segments.replace(obsolete, replacement)
        self._durability.names_changed()
        self._tail.forget_below(end)
        return True

    def last_offsets_of_producers(self) -> dict[int, Offset] | None:
        """The last offset of each producer, whose batch holds its sequence number. None: not loaded."""
        return self._producers.last_offsets()

    # ------------------------------------------------------------ producers and epochs

    def restore_producers(self, states: ProducerStates) -> None:
        known = self._producers.begin_restore(states, self.end_offset)
        if known >= 0:
            recent = self._active.index.before(max(self._active.size - REPLAYED_BYTES, 0))
            start = max(
                recent.last_offset if recent is not None else self._active.base_offset, self.start_offset
            )
            # All batches or none: stopping half-way would leave the states older than the snapshot.
            self._replay(lambda: list(self.segments.scan(start, known)))
        self._replay(lambda: self.segments.scan(max(known, self.start_offset), self.end_offset))

    def _replay(self, batches: Callable[[], Iterable[RecordBatch]]) -> None:
        try:
            with self._reading():
                self._producers.replay(batches())
        except StorageFailure as failure:
            # Readers of this part of the log get the error. Producers may still append.
            self._shared.report(f"cannot restore all producers of {self.tp}: {failure}")

    def expire_producers(self, before: Millis) -> int:
        """Forget producers without a batch since ``before``; returns how many."""
        return self._producers.expire(before)

    def epochs_changed(self) -> None:
        self._upkeep.checkpoint_epochs(self.epochs.entries, of_no_records=not self.end_offset)

    # ------------------------------------------------------------ durability

    @property
    def recovery_point(self) -> Offset:
        """Everything below this offset is on disk."""
        return self._durability.recovery_point

    @property
    def failure(self) -> str:
        """Why the log refuses appends; empty while it accepts them."""
        return self._upkeep.failure

    def begin_sync(self) -> Callable[[], None]:
        """Sync everything appended so far: see ``Upkeep.begin_sync``."""
        end, durable = self.end_offset, self.recovery_point
        return self._upkeep.begin_sync(end, self.segments.starting_with(durable) if end > durable else [])

    # ------------------------------------------------------------ the end

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def describe(self) -> LogDescription:
        return LogDescription(
            self.tp,
            self.size_bytes,
            len(self.segments),
            self.start_offset,
            self.end_offset,
            self.recovery_point,
        )

    def begin_close(self) -> Callable[[], None]:
        """The returned function makes everything durable, or raises ``StorageFailure``. It blocks and may
        run in any thread; call ``release`` after it."""
        upkeep, active = self._upkeep, self._active
        self._shared.dirty.discard(self)
        if self._clean_state == (self.end_offset, self._durability.cuts):
            return self._finish_upkeep
        write_snapshot = None
        if self.end_offset > self.start_offset or self._producers.known:
            write_snapshot = self._producers.take_snapshot(self.end_offset)
        self._durability.names_changed()
        sync = self.begin_sync()
        try:
            active.trim()
        except OSError as error:
            upkeep.failed(error)
        active.seal()

        def finish() -> None:
            upkeep.finish()
            try:
                for segment in self.segments:
                    segment.save_unsaved()
                if write_snapshot is not None:
                    write_snapshot()
                upkeep.write_epochs()
            except OSError as error:
                upkeep.failed(error)
            sync()

        return finish

    def _finish_upkeep(self) -> None:
        self._upkeep.finish()
        if self.failure:
            raise StorageFailure(self.failure)

    def release(self) -> None:
        """Close files and free memory."""
        self._shared.flushed_by_interval.pop(self, None)
        self._shared.tails.leave(self._tail)
        for segment in self.segments:
            segment.close()

    def abandon(self) -> None:
        """The log is deleted, and its folder will be: cancel pending work."""
        self._upkeep.abandon()
        self._shared.dirty.discard(self)
        self.release()
