"""Compact one batch: keep all of it, some of its records, only its header, or nothing.

Rules of this file:

* Nothing that stays changes its offset, timestamp, epoch, producer or sequence number. A batch keeps its
  first and last offset whichever records it loses, so the sequence numbers of its producer can still be
  counted.
* A record is removed if a later one has its key, or if it has no key at all (as in Kafka: the topic may have
  become compacted after the record was written).
* A record without a value (a tombstone) deletes its key. It is removed after it has been the last record of
  its key for ``delete.retention.ms``, so that consumers have time to read it. The end of that time is stored
  in the batch as in KIP-534: attribute bit 6, and the time in place of the base timestamp. Kafka 2.7 uses the
  age of files instead, which is lost when it merges them.
* Control records stay. Tombstones of transactions stay too, and transactional records never count as the last
  of a key: this code does not know whether they were committed.
* A batch with unreadable records, or with too many to read, stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from crc32c import crc32c

from tidelog.core.types import Millis
from tidelog.storage.compaction.offset_map import OffsetMap
from tidelog.storage.log.keyed_records import RECORDS_MAX, KeyedRecord, content_of, keyed_records, shifted
from tidelog.wire.batch import (
    COMPRESSION_BITS,
    CRC_START,
    HEADER,
    LENGTH_END,
    MAGIC,
    CorruptBatch,
    RecordBatch,
)
from tidelog.wire.compression import compress

DELETE_HORIZON_BIT = 1 << 6
_CRC = Struct(">I")


def note_keys(batch: RecordBatch, offsets: OffsetMap) -> bool:
    """Add the batch's records to the map. False if they do not fit; then none of them is added."""
    if batch.is_control or batch.is_transactional or batch.record_count > RECORDS_MAX:
        return True
    if not offsets.has_room_for(batch.record_count):
        return False
    try:
        offsets.note(keyed_records(batch, content_of(batch)))
    except CorruptBatch:
        return True  # it stays, and adds no keys
    return True


@dataclass(frozen=True, slots=True)
class BatchCleaner:
    offsets: OffsetMap
    now_ms: Millis
    delete_retention_ms: Millis

    def clean(self, batch: RecordBatch, *, keep_header: bool) -> RecordBatch | None:
        """The compacted batch; the same object if nothing changes."""
        if batch.is_control:
            return batch
        try:
            content = content_of(batch)
            records = keyed_records(batch, content)
        except CorruptBatch:
            return batch
        kept = self._kept(batch, records)
        if not kept:
            if not keep_header:
                return None
            return _rebuilt(batch, b"", []) if records else batch
        if _has_tombstones(kept) and not _dated(batch) and not batch.is_transactional:
            return _rebuilt(batch, content, kept, horizon=self.now_ms + self.delete_retention_ms)
        return batch if len(kept) == len(records) else _rebuilt(batch, content, kept)

    def _kept(self, batch: RecordBatch, records: list[KeyedRecord]) -> list[KeyedRecord]:
        kept = self.offsets.last_ones(records)
        if _dated(batch) and batch.base_timestamp <= self.now_ms and not batch.is_transactional:
            kept = [record for record in kept if record[2]]
        return kept


def _has_tombstones(records: list[KeyedRecord]) -> bool:
    return not all(has_value for _, _, has_value, *_ in records)


def _dated(batch: RecordBatch) -> bool:
    """Whether its base timestamp is the time at which its tombstones may be removed."""
    return bool(batch.attributes & DELETE_HORIZON_BIT)


def _rebuilt(
    batch: RecordBatch, content: bytes, kept: list[KeyedRecord], horizon: Millis | None = None
) -> RecordBatch:
    """The batch with only these records. Its tombstones may be removed at ``horizon``."""
    attributes, max_timestamp, base_timestamp = batch.attributes, batch.max_timestamp, batch.base_timestamp
    if horizon is not None:
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = horizon
        by_ms = batch.base_timestamp - horizon
        body = b"".join([shifted(content, record, by_ms) for record in kept])
    else:
        body = b"".join([content[start:end] for *_, start, end in kept])
    if kept:
        if not batch.timestamp_type:
            max_timestamp = batch.base_timestamp + max(delta for _, _, _, delta, *_ in kept)
        body = compress(body, batch.compression)
    else:
        attributes &= ~(COMPRESSION_BITS | DELETE_HORIZON_BIT)
        base_timestamp = max_timestamp
    data = bytearray(
        HEADER.pack(
            batch.base_offset,
            HEADER.size + len(body) - LENGTH_END,
            batch.leader_epoch,
            MAGIC,
            0,
            attributes,
            batch.next_offset - batch.base_offset - 1,
            base_timestamp,
            max_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            len(kept),
        )
    )
    data += body
    _CRC.pack_into(data, 17, crc32c(memoryview(data)[CRC_START:]))
    return RecordBatch.parse(data)
