"""The port between the replication rules and whatever stores records.

A log stores batches and forgets its tail when told to; it takes no decision. There are two, for two worlds:
a list in memory (the simulator) and Kafka's segment files (the broker). Calls are synchronous because an
append goes to the page cache; what is *durable* is the implementation's business and shows only when a
machine loses power.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tidelog.core.replication.epoch_cache import EpochCache
from tidelog.core.types import Epoch, Offset, TopicPartition

if TYPE_CHECKING:
    from tidelog.core.replication.producer_state import ProducerStates

UNBOUNDED = 1 << 62


class StorageFailure(Exception):
    """The disk refused (it is full, say) and the log is as it was before; or a read found other bytes than
    were written, and they are not handed out. The one exception that storage raises: its caller makes an
    answer of it, for this partition."""


class Batch(Protocol):
    """A record batch: the unit that is appended, fetched and truncated. Immutable once stored."""

    @property
    def base_offset(self) -> Offset: ...
    @property
    def next_offset(self) -> Offset: ...
    @property
    def leader_epoch(self) -> Epoch: ...
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

    def append_as_leader(self, batch: Batch, epoch: Epoch) -> Batch:
        """Give the batch the next offset and the leader's epoch, store it, return what was stored. Here and
        in the other appends: ``StorageFailure`` if it cannot be stored."""
        ...

    def append_as_follower(self, batch: Batch) -> None:
        """Store a batch as the leader stamped it. Its base offset must be this log's end."""
        ...

    def append_leader_change(self, epoch: Epoch) -> Batch:
        """Append the control record with which a majority leader opens its epoch."""
        ...

    def read(self, start: Offset, end: Offset, max_bytes: int = UNBOUNDED) -> Sequence[Batch]:
        """Batches from the one that holds ``start`` up to ``end`` (exclusive), perhaps fewer. The first one
        comes whole even if it is larger than ``max_bytes``, else a reader could never get past it.
        ``StorageFailure`` if what is stored is not what was written."""
        ...

    def truncate_to(self, offset: Offset) -> None:
        """Drop every batch at or above ``offset``. ``StorageFailure`` if that cannot be, here and below."""
        ...

    def restart_at(self, offset: Offset) -> None:
        """Drop everything and go on at ``offset``: the leader no longer has what would come before."""
        ...

    def advance_start(self, offset: Offset) -> None:
        """Nothing below ``offset`` may be read any more; what holds only such records may be deleted."""
        ...

    def restore_producers(self, states: ProducerStates) -> None:
        """Make ``states`` what the stored records say, after opening the log and after dropping its tail.
        What cannot be read is left out: this does not fail, and neither do the checkpoints."""
        ...

    def epochs_changed(self) -> None:
        """``epochs`` was modified: write it down durably (``leader-epoch-checkpoint``)."""
        ...


class Storage(Protocol):
    """All logs of one broker, and its ``replication-offset-checkpoint``."""

    def open(self, tp: TopicPartition) -> Log:
        """The log of a partition, created empty if it does not exist. ``StorageFailure`` if it cannot be:
        then nothing was created, and a later call may succeed."""
        ...

    def partitions(self) -> Sequence[TopicPartition]: ...

    def delete(self, tp: TopicPartition) -> None:
        """``StorageFailure`` if that cannot be: then the log is still there, and a later call may succeed."""
        ...

    def checkpointed_high_watermark(self, tp: TopicPartition) -> Offset:
        """The last checkpointed high watermark, 0 if there is none."""
        ...

    def checkpoint_high_watermarks(self, offsets: dict[TopicPartition, Offset]) -> None: ...
