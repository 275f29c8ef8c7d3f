"""Batches that are not as they should be, record by record: what can be read, then why not the rest."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any
from zlib import crc32

from tidelog.pipeline.segments import texts
from tidelog.pipeline.segments.rows import SEQUENCES
from tidelog.pipeline.segments.scan import Problem
from tidelog.wire.batch import CorruptBatch, RecordBatch
from tidelog.wire.records import Record, read_records

_INT64 = range(-(1 << 63), 1 << 63)


def careful_rows(
    batch: RecordBatch, position: int, *, inflated_max: int, skip: int = 0
) -> Iterator[dict[str, Any] | Problem]:
    """The batch's records from the `skip`th on, as rows, and at the first that cannot be read a problem."""
    try:
        for record in islice(_checked(batch, inflated_max), skip, None):
            yield _row(batch, record, position)
    except CorruptBatch as error:
        yield Problem(position, str(error), batch.base_offset, crc_ok=True)


def _checked(batch: RecordBatch, inflated_max: int) -> Iterator[Record]:
    for record in read_records(batch, limit=inflated_max):
        if not batch.base_offset <= record.offset < batch.next_offset:
            raise CorruptBatch(f"a record has the offset {record.offset}, outside its batch")
        if record.timestamp not in _INT64:
            raise CorruptBatch("a record's timestamp does not fit 64 bits")
        yield record


def _row(batch: RecordBatch, record: Record, position: int) -> dict[str, Any]:
    delta = record.offset - batch.base_offset
    value = record.value
    sequence = (batch.base_sequence + delta) % SEQUENCES
    return {
        "offset": record.offset,
        "leader_epoch": _known(batch.leader_epoch),
        "timestamp_ms": None if record.timestamp == -1 else record.timestamp,
        "producer_id": _known(batch.producer_id),
        "producer_epoch": _known(batch.producer_epoch),
        "producer_sequence": None if batch.base_sequence < 0 else sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "key": record.key,
        "value": value,
        "headers": [{"key": name, "value": content} for name, content in record.headers],
        "key_text": texts.key_text(record.key),
        "value_id": texts.id_text(value),
        "value_bytes": None if value is None else len(value),
        "value_crc32": None if value is None else crc32(value),
        "compression": batch.compression.name.lower(),
        "batch_base_offset": batch.base_offset,
        "position": position,
        "crc_ok": True,
    }


def _known(number: int) -> int | None:
    return None if number < 0 else number
