"""A log in memory with simulated power cuts: the simulator's disk.

``batches`` holds every record as a batch of its own, so its index in the list gives its offset. Records that
were written as one batch are read and truncated as one, as in files. An append is in the "page
cache" at once and survives a crash of the process; only ``sync`` makes it survive a power cut. A broker
writes the epoch checkpoint with tmp + fsync + rename, so here it is always durable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tidelog.core.log_port import UNBOUNDED, Batch
from tidelog.core.replication.epoch_cache import EpochCache
from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.types import (
    NO_BROKER_EPOCH,
    NO_EPOCH,
    NO_PRODUCER,
    NO_TOPIC_ID,
    InvariantViolation,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)


@dataclass(slots=True)
class MemoryBatch:
    """One record, and ``rest``, the records behind it in the same batch. ``value`` is None for a control
    record. Immutable once stored, and shared by replicas."""

    value: str | None
    base_offset: Offset = 0
    leader_epoch: LeaderEpoch = NO_EPOCH
    producer_id: int = NO_PRODUCER
    producer_epoch: int = -1
    base_sequence: int = -1
    rest: tuple[str, ...] = ()

    @property
    def next_offset(self) -> Offset:
        return self.base_offset + 1 + len(self.rest)

    def records(self) -> Iterator[MemoryBatch]:
        """Each record as a batch of its own."""
        if not self.rest:
            yield self
            return
        for index, value in enumerate((self.value, *self.rest)):
            sequence = self.base_sequence + index if self.base_sequence >= 0 else -1
            yield replace(
                self, value=value, base_offset=self.base_offset + index, base_sequence=sequence, rest=()
            )


class MemoryLog:
    __slots__ = (
        "_first",
        "_sync_each_append",
        "_whole",
        "batches",
        "end_offset",
        "epochs",
        "start_offset",
        "synced_offset",
        "topic_id",
    )

    def __init__(self, *, sync_each_append: bool = False) -> None:
        self.batches: list[MemoryBatch] = []
        self._first: Offset = 0
        """The offset of ``batches[0]``, or of the next record if there is none."""
        self.start_offset: Offset = 0
        self.end_offset: Offset = 0
        self.synced_offset: Offset = 0
        self.epochs = EpochCache()
        self.topic_id = NO_TOPIC_ID
        self._sync_each_append = sync_each_append
        self._whole: dict[Offset, MemoryBatch] = {}
        """The batch of each record that was written together with others."""

    def identify(self, topic_id: TopicId) -> None:
        self.topic_id = topic_id

    def append_as_leader(self, batch: Batch, epoch: LeaderEpoch) -> MemoryBatch:
        assert isinstance(batch, MemoryBatch)
        stored = MemoryBatch(
            batch.value,
            self.end_offset,
            epoch,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.rest,
        )
        self._store(stored)
        return stored

    def append_as_follower(self, batch: Batch) -> None:
        assert isinstance(batch, MemoryBatch)
        if batch.base_offset != self.end_offset:
            raise InvariantViolation(
                f"a record of offset {batch.base_offset} was appended to a log that ends at {self.end_offset}"
            )
        self._store(batch)

    def rest_of(self, batch: Batch, offset: Offset) -> MemoryBatch:
        assert isinstance(batch, MemoryBatch)
        first, *others = (record for record in batch.records() if record.base_offset >= offset)
        return replace(first, rest=tuple(record.value for record in others if record.value is not None))

    def append_leader_change(self, epoch: LeaderEpoch) -> MemoryBatch:
        stored = MemoryBatch(None, self.end_offset, epoch)
        self._store(stored)
        return stored

    def _store(self, batch: MemoryBatch) -> None:
        if batch.rest:
            self.batches.extend(batch.records())
            self._whole.update(dict.fromkeys(range(batch.base_offset, batch.next_offset), batch))
            self.end_offset = batch.next_offset
        else:
            self.batches.append(batch)
            self.end_offset += 1
        if self._sync_each_append:
            self.synced_offset = self.end_offset

    def read(self, start: Offset, end: Offset, max_bytes: int = UNBOUNDED) -> Sequence[MemoryBatch]:
        first = self._first
        if not self._whole:
            return self.batches[start - first : end - first]
        found: list[MemoryBatch] = []
        while start < end:
            batch = self._whole.get(start) or self.batches[start - first]
            if batch.next_offset > end:
                break
            found.append(batch)
            start = batch.next_offset
        return found

    def truncate_to(self, offset: Offset) -> None:
        if offset in self._whole:
            offset = self._whole[offset].base_offset
        self._whole = {at: batch for at, batch in self._whole.items() if at < offset}
        del self.batches[max(offset - self._first, 0) :]
        self.end_offset = self._first + len(self.batches)
        self.synced_offset = min(self.synced_offset, self.end_offset)

    def restart_at(self, offset: Offset) -> None:
        self.batches.clear()
        self._whole.clear()
        self._first = self.start_offset = self.end_offset = self.synced_offset = offset

    def advance_start(self, offset: Offset) -> None:
        del self.batches[: offset - self._first]
        self._first = self.start_offset = offset

    def restore_producers(self, states: ProducerStates) -> None:
        states.clear()
        for batch in self.read(self._first, self.end_offset):
            states.append(batch)

    def epochs_changed(self) -> None:
        """The checkpoint is the cache itself."""

    def sync(self) -> None:
        self.synced_offset = self.end_offset

    def recover(self) -> None:
        """Load the log after a stop: drop epochs that start beyond its end."""
        self.epochs.truncate_from_end(self.end_offset)


class MemoryStorage:
    """The disk of one simulated machine. It outlives the process that uses it."""

    __slots__ = ("_closed", "_high_watermarks", "_sync_each_append", "broker_epoch", "logs")

    def __init__(self, *, sync_each_append: bool = False) -> None:
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self._high_watermarks: dict[TopicPartition, Offset] = {}
        self.broker_epoch = NO_BROKER_EPOCH
        self._closed = False
        """Whether there is a clean-shutdown file."""
        self._sync_each_append = sync_each_append

    def open(self, tp: TopicPartition) -> MemoryLog:
        log = self.logs.get(tp)
        if log is None:
            log = self.logs[tp] = MemoryLog(sync_each_append=self._sync_each_append)
        return log

    def partitions(self) -> Sequence[TopicPartition]:
        return tuple(self.logs)

    def delete(self, tp: TopicPartition) -> None:
        self.logs.pop(tp, None)
        self._high_watermarks.pop(tp, None)

    def set_aside(self, tp: TopicPartition) -> None:
        self.delete(tp)  # no broker and no test reads it again

    def checkpointed_high_watermark(self, tp: TopicPartition) -> Offset:
        return self._high_watermarks.get(tp, 0)

    def checkpoint_high_watermarks(self, offsets: dict[TopicPartition, Offset]) -> None:
        self._high_watermarks.update(offsets)

    def sync(self) -> None:
        for log in self.logs.values():
            log.sync()

    def lose_power(self) -> None:
        """Drop everything that was not synced."""
        for log in self.logs.values():
            log.truncate_to(log.synced_offset)

    def close(self) -> None:
        """A clean shutdown."""
        self.sync()
        self._closed = True

    def recover(self) -> None:
        """A process starts. It removes the clean-shutdown file before it changes anything."""
        if not self._closed:
            self.broker_epoch = NO_BROKER_EPOCH
        self._closed = False
        for log in self.logs.values():
            log.recover()
