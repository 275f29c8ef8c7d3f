"""Record batches as a broker sees them: parsed, stamped and judged without a look at the records."""

from __future__ import annotations

from struct import pack_into
from typing import TYPE_CHECKING

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.wire.batch import HEADER_SIZE, CorruptBatch, RecordBatch, TimestampType, split
from tidelog.wire.compression import Compression
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.records import Record, build_batch, leader_change_batch, read_records

if TYPE_CHECKING:
    from tidelog.core.log_port import Batch

RECORDS = [Record(timestamp=1000 + number, key=b"k", value=b"v" * number) for number in range(5)]
# Where the fields lie in a batch.
LENGTH, MAGIC, CRC, ATTRIBUTES, LAST_DELTA = 8, 16, 17, 21, 23
PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, COUNT = 43, 51, 53, 57


def batch_of(data: bytes) -> RecordBatch:
    return RecordBatch.parse(bytearray(data))


def altered(data: bytes, format: str, position: int, value: int) -> RecordBatch:
    """The batch with one field changed, and a CRC that agrees with it."""
    changed = bytearray(data)
    pack_into(">" + format, changed, position, value)
    pack_into(">I", changed, CRC, crc32c(bytes(changed[ATTRIBUTES:])))
    return RecordBatch.parse(changed)


def test_the_header_is_read() -> None:
    """Every field of the header is where Kafka puts it."""
    data = build_batch(
        RECORDS,
        base_offset=70,
        leader_epoch=4,
        compression=Compression.ZSTD,
        producer_id=9,
        producer_epoch=2,
        base_sequence=33,
        transactional=True,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    batch = RecordBatch.parse(b"before" + data + b"behind", 6)
    assert bytes(batch.data) == data
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (70, 74, 75)
    assert (batch.leader_epoch, batch.record_count, batch.size) == (4, 5, len(data))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 2, 33)
    assert (batch.base_timestamp, batch.max_timestamp) == (1000, 1004)
    assert batch.compression is Compression.ZSTD
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert batch.is_transactional
    assert not batch.is_control
    assert batch.crc_ok()


def test_a_batch_is_what_the_core_calls_one() -> None:
    """The replication rules take wire batches as they are."""
    batch: Batch = batch_of(build_batch(RECORDS, base_offset=3, producer_id=7, base_sequence=0))
    assert (batch.next_offset, batch.producer_id) == (8, 7)


def test_stamping_leaves_the_crc_alone() -> None:
    """Offset and epoch are written into the batch's own bytes, and nothing else changes."""
    data = bytearray(b"..") + build_batch(RECORDS)
    batch = RecordBatch.parse(data, 2)
    before = bytes(data)
    batch.stamp(1 << 40, 12)
    assert (batch.base_offset, batch.next_offset, batch.leader_epoch) == (1 << 40, (1 << 40) + 5, 12)
    assert batch.crc_ok()
    again = RecordBatch.parse(data, 2)
    assert (again.base_offset, again.next_offset, again.leader_epoch) == (1 << 40, (1 << 40) + 5, 12)
    assert data[:2] == b".."
    assert data[10:14] == before[10:14]
    assert data[18:] == before[18:]
    assert [record.offset for record in read_records(again)] == [(1 << 40) + delta for delta in range(5)]


def test_stamping_the_append_time_changes_what_every_record_says() -> None:
    """LogAppendTime replaces the producer's timestamps and makes a new CRC."""
    batch = batch_of(build_batch(RECORDS))
    batch.stamp_append_time(5_000)
    assert batch.crc_ok()
    again = RecordBatch.parse(batch.data)
    assert again.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (again.max_timestamp, again.base_timestamp) == (5_000, 1_000)
    assert {record.timestamp for record in read_records(again)} == {5_000}


def test_one_flipped_bit_is_noticed() -> None:
    """The CRC covers everything from the attributes on."""
    data = build_batch(RECORDS)
    for position in range(ATTRIBUTES, len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        assert not RecordBatch.parse(changed).crc_ok()
        assert RecordBatch.parse(changed).validation_error(1 << 20) == ErrorCode.CORRUPT_MESSAGE


def test_what_a_leader_accepts() -> None:
    """Batches of plain, idempotent and transactional producers in any codec are fine."""
    for compression in Compression:
        for producer in (
            {},
            {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0},
            {"producer_id": 0, "producer_epoch": 3, "base_sequence": 9, "transactional": True},
        ):
            data = build_batch(RECORDS, compression=compression, **producer)  # type: ignore[arg-type]
            assert batch_of(data).validation_error(len(data)) == ErrorCode.NONE
            assert batch_of(data).validation_error(len(data) - 1) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("format", "position", "value"),
    [
        ("i", COUNT, 0),
        ("i", COUNT, -1),
        ("i", COUNT, 4),
        ("i", LAST_DELTA, 5),
        ("i", LAST_DELTA, -1),
        ("h", ATTRIBUTES, 0x20),
        ("h", ATTRIBUTES, 0x05),
        ("h", ATTRIBUTES, 0x07),
        ("i", BASE_SEQUENCE, -1),
    ],
)
def test_what_a_leader_refuses(format: str, position: int, value: int) -> None:
    """Counts that contradict each other, control batches, unknown codecs, a producer without sequences."""
    data = build_batch(RECORDS, producer_id=5, producer_epoch=0, base_sequence=0)
    batch = altered(data, format, position, value)
    assert batch.crc_ok()
    assert batch.validation_error(1 << 20) == ErrorCode.INVALID_RECORD


def test_a_transaction_needs_a_producer() -> None:
    """A transactional batch without a producer id belongs to no transaction."""
    batch = batch_of(build_batch(RECORDS, transactional=True))
    assert batch.validation_error(1 << 20) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_other_magics_are_refused(magic: int) -> None:
    """Formats older than 0.11 have no place in the log."""
    data = bytearray(build_batch(RECORDS))
    pack_into(">b", data, MAGIC, magic)
    with pytest.raises(CorruptBatch, match=f"magic {magic}"):
        RecordBatch.parse(data)
    with pytest.raises(CorruptBatch):
        split(data)


@pytest.mark.parametrize("length", [-1, 0, 48, -(1 << 31)])
def test_impossible_lengths_are_refused(length: int) -> None:
    """A batch is no shorter than its header."""
    data = bytearray(build_batch(RECORDS))
    pack_into(">i", data, LENGTH, length)
    with pytest.raises(CorruptBatch):
        RecordBatch.parse(data)
    with pytest.raises(CorruptBatch):
        split(data)


def test_an_incomplete_batch_is_not_a_batch() -> None:
    """Whatever is missing at the end, a batch does not parse without it."""
    data = build_batch(RECORDS)
    for size in range(len(data)):
        with pytest.raises(CorruptBatch):
            RecordBatch.parse(data[:size])


def test_split_gives_the_complete_batches() -> None:
    """What a fetch brings is a run of batches, the last perhaps cut off anywhere."""
    data = [build_batch(RECORDS[:count], base_offset=10 * count) for count in (1, 3, 5)]
    whole = b"".join(data)
    assert split(b"") == []
    for size in range(len(data[0]), len(whole) + 1):
        batches = split(whole[:size])
        expected = sum(size >= end for end in (len(data[0]), len(data[0]) + len(data[1]), len(whole)))
        assert [bytes(batch.data) for batch in batches] == data[:expected]
    assert [batch.base_offset for batch in split(memoryview(whole))] == [10, 30, 50]


def test_garbage_behind_a_batch_is_refused() -> None:
    """An incomplete batch is forgiven, something that cannot be one is not."""
    data = build_batch(RECORDS)
    with pytest.raises(CorruptBatch):
        split(data + b"\x01" * HEADER_SIZE)
    with pytest.raises(CorruptBatch):
        split(data + bytes(HEADER_SIZE))


def test_leader_change_is_krafts() -> None:
    """The control record of a new leader is, byte for byte, what KRaft writes."""
    batch = batch_of(leader_change_batch(7, 2, [1, 2, 3], 1_000))
    assert batch.is_control
    assert (batch.leader_epoch, batch.record_count, batch.producer_id) == (7, 1, -1)
    assert batch.crc_ok()
    (record,) = read_records(batch)
    assert record.timestamp == 1_000
    assert record.key == bytes.fromhex("0000 0002")
    voters = "04 00000001 00 00000002 00 00000003 00"
    assert record.value == bytes.fromhex(f"0000 00000002 {voters} {voters} 00")


@given(st.binary(max_size=200))
@settings(max_examples=500)
def test_noise_is_not_a_batch(noise: bytes) -> None:
    """Random bytes are batches, nothing, or a ProtocolError, never another exception."""
    try:
        for batch in split(noise):
            list(read_records(batch))
    except ProtocolError:
        return


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=6),
    st.sampled_from(Compression),
)
@settings(max_examples=1000)
def test_damaged_batches_are_read_or_refused(damage: list[tuple[int, int]], compression: Compression) -> None:
    """A batch with changed bytes gives records or a ProtocolError, and no more than its count says."""
    data = bytearray(build_batch([*RECORDS, Record(headers=[("h", b"x" * 99)])], compression=compression))
    for position, byte in damage:
        data[position % len(data)] = byte
    try:
        batch = RecordBatch.parse(data)
        records = list(read_records(batch, limit=1 << 20))
    except ProtocolError:
        return
    assert len(records) == batch.record_count
