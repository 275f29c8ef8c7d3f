"""What the transaction coordinator wrote about its transactions: the topic `__transaction_state`.

The key of a record is a version and the transactional id, its value the state of that transaction; a record
without a value forgets the id. The last record of an id counts. Versions 0 (before KIP-915) and 1 (flexible)
have the same first fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidelog.core.types import TopicPartition
from tidelog.evidence.importers.kafka.segment_files import SegmentFile
from tidelog.wire.batch import CorruptBatch
from tidelog.wire.codec import decode
from tidelog.wire.errors import ProtocolError
from tidelog.wire.records import read_records
from tidelog.wire.schema import Int8, Int16, Int32, Int64, String, field, struct

TOPIC: Final = "__transaction_state"

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)

ONGOING: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


@struct
class TransactionKey:
    transactional_id: String


@struct
class TransactionPartitions:
    topic: String
    partition_ids: list[Int32]


@struct
class TransactionValue:
    producer_id: Int64
    previous_producer_id: Int64 = field(-1, since=1, tag=0)
    next_producer_id: Int64 = field(-1, since=1, tag=1)
    producer_epoch: Int16
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[TransactionPartitions] | None
    last_update_ms: Int64
    start_ms: Int64


@dataclass(slots=True, frozen=True)
class Coordinated:
    """The last known state of a transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    partitions: frozenset[tuple[str, int]]
    updated_ms: int

    def has_open(self, producer_epoch: int, tp: TopicPartition) -> bool:
        """Whether a transaction of this producer goes on in the partition."""
        return (
            self.state in ONGOING and self.producer_epoch == producer_epoch and tuple(tp) in self.partitions
        )


def read_coordinator(segments: Iterable[SegmentFile]) -> tuple[dict[str, Coordinated], int]:
    """By transactional id; and the newest timestamp. What cannot be decoded is passed over: the audit of the
    topic's replicas names damage."""
    found: dict[str, Coordinated] = {}
    newest_ms = -1
    for segment in segments:
        for header in segment.headers():
            newest_ms = max(newest_ms, header.max_timestamp)
            if header.control or header.magic < 2:
                continue
            try:
                for record in read_records(segment.batch(header)):
                    _take(found, record.key, record.value)
            except (CorruptBatch, ProtocolError, ValueError):
                continue
    return found, newest_ms


def _take(found: dict[str, Coordinated], key: bytes | None, value: bytes | None) -> None:
    if key is None or int.from_bytes(key[:2], "big") != 0:
        return
    name = decode(TransactionKey, 0, False, key[2:]).transactional_id
    if value is None:
        found.pop(name, None)
        return
    version = int.from_bytes(value[:2], "big")
    state = decode(TransactionValue, version, version >= 1, value[2:])
    status = state.transaction_status
    found[name] = Coordinated(
        name,
        state.producer_id,
        state.producer_epoch,
        STATES[status] if 0 <= status < len(STATES) else str(status),
        state.transaction_timeout_ms,
        frozenset(
            (topic.topic, partition)
            for topic in state.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        state.last_update_ms,
    )
