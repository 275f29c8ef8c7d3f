"""Batches for the tests of segment decoding, and what the plain reader of `tidelog.wire` makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from crc32c import crc32c
from hypothesis import strategies as st

from tidelog.evidence.tables import value_id
from tidelog.pipeline.files import Place
from tidelog.pipeline.segments.reader import read_segment
from tidelog.pipeline.segments.rows import SegmentFile
from tidelog.wire.batch import CRC_START, HEADER_SIZE, CorruptBatch, RecordBatch, TimestampType
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, build_batch, read_records

COUNT_START = HEADER_SIZE - 4
NAME = "00000000000000000000.log"

sizes = st.one_of(st.integers(0, 40), st.sampled_from((63, 64, 127, 8191, 8192)))
contents = st.one_of(st.none(), st.binary(max_size=40), sizes.map(lambda size: b"p1-7 " + b"x" * size))
headers = st.lists(st.tuples(st.text(max_size=5), contents), max_size=3)
timestamps = st.one_of(
    st.integers(-1, 2), st.integers(1_700_000_000_000, 1_700_000_100_000), st.integers(0, 2**62)
)
records = st.builds(Record, timestamp=timestamps, key=contents, value=contents, headers=headers)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A batch of any kind, at offset 0."""
    producer = draw(st.sampled_from((-1, 0, 4000)))
    few = draw(st.lists(records, min_size=1, max_size=5))
    large = any(len(record.value or b"") + len(record.key or b"") > 200 for record in few)
    return build_batch(
        few if large else few * draw(st.sampled_from((1, 1, 1, 40))),
        compression=draw(st.sampled_from(Compression)),
        leader_epoch=draw(st.integers(-1, 5)),
        producer_id=producer,
        producer_epoch=-1 if producer < 0 else 3,
        base_sequence=-1 if producer < 0 else draw(st.sampled_from((0, 17, 2**31 - 2))),
        transactional=producer > 0 and draw(st.booleans()),
        control=draw(st.booleans()),
        timestamp_type=draw(st.sampled_from(TimestampType)),
    )


def chained(parts: Sequence[bytes], first: int = 0) -> bytes:
    """The batches one after the other, as a log has them."""
    stored, offset = bytearray(), first
    for part in parts:
        batch = RecordBatch.parse(bytearray(part))
        batch.stamp(offset, batch.leader_epoch)
        stored += batch.data
        offset = batch.next_offset
    return bytes(stored)


def written(folder: Path, data: bytes) -> SegmentFile:
    path = folder / NAME
    path.write_bytes(data)
    return SegmentFile(Place.of(folder), path.name, 1, "t", 0)


def rows(segment: SegmentFile, columns: Sequence[str] | None = None, **options: Any) -> list[dict[str, Any]]:
    return [row for part in read_segment(segment, columns, **options) for row in part.to_pylist()]


def expected(data: bytes, segment: SegmentFile) -> list[dict[str, Any]]:
    """The same rows, slowly, by the reader that everything else uses: of each batch as many as it gives."""
    found, at = [], 0
    while at < len(data):
        batch = RecordBatch.parse(data, at)
        with suppress(CorruptBatch):
            for record in read_records(batch):
                if not batch.base_offset <= record.offset < batch.next_offset or record.timestamp >= 2**63:
                    break
                found.append(_expected_row(batch, record, at, segment))
        at += batch.size
    return found


def altered(data: bytes, changes: Sequence[tuple[int, int]]) -> bytes:
    """A batch with other bytes in its records, or another number of them, and a CRC that fits."""
    batch = bytearray(data)
    for place, value in changes:
        batch[COUNT_START + place % (len(batch) - COUNT_START)] = value
    batch[CRC_START - 4 : CRC_START] = crc32c(bytes(batch[CRC_START:])).to_bytes(4, "big")
    return bytes(batch)


def _expected_row(batch: RecordBatch, record: Record, at: int, segment: SegmentFile) -> dict[str, Any]:
    value = record.value
    sequence = batch.base_sequence + record.offset - batch.base_offset
    return {
        "broker": segment.broker,
        "topic": segment.topic,
        "partition": segment.partition,
        "offset": record.offset,
        "leader_epoch": _known(batch.leader_epoch),
        "timestamp_ms": _known(record.timestamp),
        "producer_id": _known(batch.producer_id),
        "producer_epoch": _known(batch.producer_epoch),
        "producer_sequence": None if batch.base_sequence < 0 else sequence % 2**31,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "key": record.key,
        "value": value,
        "headers": [{"key": name, "value": content} for name, content in record.headers],
        "key_text": _text(record.key, 16),
        "value_id": None if value is None else _text(value_id(value.decode("latin-1")).encode("latin-1"), 32),
        "value_bytes": None if value is None else len(value),
        "value_crc32": None if value is None else crc32(value),
        "compression": batch.compression.name.lower(),
        "batch_base_offset": batch.base_offset,
        "position": at,
        "file": segment.path,
        "crc_ok": True,
        "problem": None,
    }


def _known(number: int) -> int | None:
    return None if number == -1 else number


def _text(content: bytes | None, size: int) -> str | None:
    """As the journals of clients write it: so many characters, whatever is not plain as a question mark."""
    if not content:
        return None
    return "".join(chr(byte) if 0 < byte < 0x80 else "?" for byte in content[:size])
