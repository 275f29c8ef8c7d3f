"""The interface between the replication rules and storage.

A log stores and truncates batches; it makes no decisions. There are two implementations: a list in memory
(the simulator) and Kafka's segment files (the broker). Calls are synchronous because an append goes to the
page cache; durability is up to the implementation and matters only when a machine loses power.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tidelog.core.replication.epoch_cache import EpochCache
from tidelog.core.types import BrokerEpoch, LeaderEpoch, Offset, TopicId, TopicPartition

if TYPE_CHECKING:
    from tidelog.core.replication.producer_state import ProducerStates

UNBOUNDED = 1 << 62


class StorageFailure(Exception):
    """The disk refused a change (for example when it is full) and the log is unchanged; or a read found
    corrupt bytes, which are not returned. Storage raises no other exception; the caller turns it into an
    error of the partition."""


class OutOfOrder(Exception):
    """The leader's batch begins below the end of the follower's log, so the two logs differ below it."""


class Batch(Protocol):
    """A record batch: the unit that is appended, fetched and truncated. Immutable once stored."""

    @property
    def base_offset(self) -> Offset: ...
    @property
    def next_offset(self) -> Offset: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...


class Log(Protocol):
    """One replica's records of one partition."""

    start_offset: Offset
    end_offset: Offset
    epochs: EpochCache
    topic_id: TopicId
    """The topic that the records belong to, ``NO_TOPIC_ID`` if it is not known."""

    def identify(self, topic_id: TopicId) -> None:
        """Store the id of the topic (``partition.metadata``)."""
        ...

    def append_as_leader(self, batch: Batch, epoch: LeaderEpoch) -> Batch:
        """Give the batch the next offset and the leader's epoch, store it, and return it. All appends raise
        ``StorageFailure`` if it cannot be stored."""
        ...

    def append_as_follower(self, batch: Batch) -> None:
        """Store a batch as the leader stamped it. Its base offset must be this log's end."""
        ...

    def rest_of(self, batch: Batch, offset: Offset) -> Batch:
        """The records of a batch from ``offset`` on, as a batch of their own."""
        ...

    def append_leader_change(self, epoch: LeaderEpoch) -> Batch:
        """Append the control record with which a majority leader opens its epoch."""
        ...

    def read(self, start: Offset, end: Offset, max_bytes: int = UNBOUNDED) -> Sequence[Batch]:
        """Batches from the one that holds ``start`` up to ``end`` (exclusive), perhaps fewer. The first one
        is complete even if it is larger than ``max_bytes``; otherwise a reader could never get past it.
        ``StorageFailure`` if stored bytes are corrupt."""
        ...

    def truncate_to(self, offset: Offset) -> None:
        """Drop every batch at or above ``offset``. Raises ``StorageFailure`` on failure, as do the methods
        below."""
        ...

    def restart_at(self, offset: Offset) -> None:
        """Drop everything and continue at ``offset``, because the leader no longer has earlier records."""
        ...

    def advance_start(self, offset: Offset) -> None:
        """Hide all records below ``offset``; files with only such records may be deleted."""
        ...

    def restore_producers(self, states: ProducerStates) -> None:
        """Rebuild ``states`` from the stored records, after opening and after truncating the log. Unreadable
        records are skipped: this does not fail, and neither do the checkpoints."""
        ...

    def epochs_changed(self) -> None:
        """``epochs`` was modified: checkpoint it durably (``leader-epoch-checkpoint``)."""
        ...


class Storage(Protocol):
    """All logs of one broker, and its ``replication-offset-checkpoint``."""

    broker_epoch: BrokerEpoch
    """The epoch of the broker's last registration. A clean shutdown keeps it for the next process; otherwise
    that one starts with −1."""

    def open(self, tp: TopicPartition) -> Log:
        """The log of a partition, created empty if it does not exist. After ``StorageFailure`` nothing was
        created, and a later call may succeed."""
        ...

    def partitions(self) -> Sequence[TopicPartition]: ...

    def delete(self, tp: TopicPartition) -> None:
        """After ``StorageFailure`` the log still exists, and a later call may succeed."""
        ...

    def set_aside(self, tp: TopicPartition) -> None:
        """The log belongs to an earlier topic of the same name: keep it where no broker reads it. After
        ``StorageFailure`` it is still there, and a later call may succeed."""
        ...

    def checkpointed_high_watermark(self, tp: TopicPartition) -> Offset:
        """The last checkpointed high watermark, 0 if there is none."""
        ...

    def checkpoint_high_watermarks(self, offsets: dict[TopicPartition, Offset]) -> None: ...
