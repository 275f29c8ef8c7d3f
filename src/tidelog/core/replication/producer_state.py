"""Idempotent producers: which sequence numbers a partition has already stored (KIP-98, KIP-360).

The state is a function of the log: leader and followers update it with every batch they append and rebuild
it after a truncation, so it survives fail-over. Kafka remembers the last five batches of each producer
because a client may have five requests in flight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.core.log_port import Batch
from tidelog.core.types import NO_PRODUCER, UNKNOWN_OFFSET, Offset
from tidelog.wire.errors import ErrorCode

REMEMBERED_BATCHES = 5
NO_SEQUENCE = -1
SEQUENCES = 2**31
"""After the sequence number 2^31 - 1 comes 0."""


class ProducerEntry(NamedTuple):
    """The stored state of a producer, as in Kafka: its last batch. Enough to continue, and to detect a repeat
    of that batch."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: Offset
    offset_delta: int
    """From the first to the last record of the batch."""


@dataclass(slots=True)
class _Producer:
    epoch: int
    next_sequence: int
    recent: list[tuple[int, int, Offset]] = field(default_factory=list)
    """(base sequence, records, base offset) of the last batches, oldest first."""


class ProducerStates:
    __slots__ = ("_producers", "_turned_away")

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self._turned_away: dict[int, tuple[int, int]] = {}
        """(epoch, base sequence) of the batch that a producer must repeat before any other."""

    def __bool__(self) -> bool:
        return bool(self._producers)

    def check(self, batch: Batch) -> tuple[ErrorCode, Offset]:
        """Check whether the leader may append this batch.

        ``(NONE, UNKNOWN_OFFSET)``: yes. ``(NONE, offset)``: it is already stored at that offset, and the
        answer is a success. Anything else is the error to reply with.
        """
        known = self._producers.get(batch.producer_id)
        if known is None:
            # The producer is unknown (new, or expired): KIP-360 accepts any sequence.
            return self._unless_turned_away(batch, ErrorCode.NONE), UNKNOWN_OFFSET
        if batch.producer_epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, UNKNOWN_OFFSET
        if batch.producer_epoch > known.epoch:
            in_order = batch.base_sequence == 0
        else:
            records = batch.next_offset - batch.base_offset
            for sequence, length, offset in known.recent:
                if (sequence, length) == (batch.base_sequence, records):
                    return ErrorCode.NONE, offset
            in_order = batch.base_sequence == known.next_sequence
        if in_order:
            return ErrorCode.NONE, UNKNOWN_OFFSET
        return self._unless_turned_away(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), UNKNOWN_OFFSET

    def turned_away(self, batch: Batch) -> None:
        """The disk refused a batch that was in order. Later batches are in flight already and get the same
        error. OUT_OF_ORDER_SEQUENCE_NUMBER would mean lost records to a client: librdkafka would start a new
        epoch, and resend in it batches that other partitions may have stored."""
        self._turned_away.setdefault(batch.producer_id, (batch.producer_epoch, batch.base_sequence))

    def _unless_turned_away(self, batch: Batch, error: ErrorCode) -> ErrorCode:
        epoch, sequence = self._turned_away.get(
            batch.producer_id, (batch.producer_epoch, batch.base_sequence)
        )
        waits = epoch == batch.producer_epoch and sequence != batch.base_sequence
        return ErrorCode.KAFKA_STORAGE_ERROR if waits else error

    def append(self, batch: Batch) -> None:
        """Record a batch that was just stored."""
        if batch.producer_id == NO_PRODUCER:
            return
        known = self._producers.get(batch.producer_id)
        if known is None or batch.producer_epoch != known.epoch:
            known = self._producers[batch.producer_id] = _Producer(batch.producer_epoch, 0)
        if batch.base_sequence == NO_SEQUENCE:
            # A transaction marker, written by a coordinator: it may raise the epoch, and has no sequence
            # number.
            return
        records = batch.next_offset - batch.base_offset
        known.next_sequence = (batch.base_sequence + records) % SEQUENCES
        known.recent.append((batch.base_sequence, records, batch.base_offset))
        self._turned_away.pop(batch.producer_id, None)
        if len(known.recent) > REMEMBERED_BATCHES:
            del known.recent[0]

    def clear(self) -> None:
        """Forget everything, before ``Log.restore_producers`` rebuilds it."""
        self._producers.clear()
        self._turned_away.clear()

    def entries(self) -> Iterator[ProducerEntry]:
        for producer_id, known in self._producers.items():
            if known.recent:
                base_sequence, records, base_offset = known.recent[-1]
                delta = records - 1
                last_sequence = (base_sequence + delta) % SEQUENCES
                yield ProducerEntry(producer_id, known.epoch, last_sequence, base_offset + delta, delta)
            else:
                yield ProducerEntry(producer_id, known.epoch, -1, UNKNOWN_OFFSET, 0)

    def put(self, entry: ProducerEntry) -> None:
        """Restore a producer from a snapshot."""
        known = self._producers[entry.producer_id] = _Producer(
            entry.epoch, (entry.last_sequence + 1) % SEQUENCES
        )
        if entry.last_offset != UNKNOWN_OFFSET:
            base_sequence = (entry.last_sequence - entry.offset_delta) % SEQUENCES
            known.recent.append(
                (base_sequence, entry.offset_delta + 1, entry.last_offset - entry.offset_delta)
            )

    def forget(self, producer_id: int) -> None:
        """Forget a producer without writes for ``producer.id.expiration.ms``."""
        self._producers.pop(producer_id, None)
        self._turned_away.pop(producer_id, None)
