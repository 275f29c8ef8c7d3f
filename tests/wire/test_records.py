"""Records in batches, against the builders and readers of aiokafka and kafka-python."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.wire.batch import CorruptBatch, RecordBatch, TimestampType
from tidelog.wire.compression import Compression, compress, decompress
from tidelog.wire.errors import ProtocolError
from tidelog.wire.records import Record, build_batch, read_records, records_from

with warnings.catch_warnings():
    # kafka-python reads its message definitions in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    AIOKAFKA = import_module("aiokafka.record.default_records")
    KAFKA_PYTHON = import_module("kafka.record.default_records")

CODECS = list(Compression)
# kafka-python needs packages of its own for the others; aiokafka has all of them.
PEERS = [
    *(pytest.param(AIOKAFKA, codec, id=f"aiokafka-{codec.name}") for codec in CODECS),
    *(
        pytest.param(KAFKA_PYTHON, codec, id=f"kafka-python-{codec.name}")
        for codec in (Compression.NONE, Compression.GZIP)
    ),
]

RECORDS = [
    Record(timestamp=1_700_000_000_000, key=b"key", value=b"value"),
    Record(timestamp=1_700_000_000_005, key=None, value=b""),
    Record(timestamp=1_699_999_999_000, key=b"", value=None),
    Record(timestamp=1_700_000_000_001, key=b"k" * 200, value=b"v" * 70_000),
    Record(timestamp=1_700_000_000_002, value=b"x", headers=[("h", b"1"), ("ä", None), ("h", b"")]),
]


def contents(records: Sequence[Any]) -> list[Any]:
    return [
        (record.offset, record.timestamp, record.key, record.value, [*map(tuple, record.headers)])
        for record in records
    ]


def expected(base_offset: int = 0) -> list[Any]:
    return [
        (base_offset + delta, record.timestamp, record.key, record.value, record.headers)
        for delta, record in enumerate(RECORDS)
    ]


@pytest.mark.parametrize(("peer", "codec"), PEERS)
def test_batches_of_others_are_read(peer: Any, codec: Compression) -> None:
    """What a client builds parses, has a right CRC, is valid, and holds what the client put in."""
    builder = peer.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=8,
        producer_epoch=3,
        base_sequence=100,
        batch_size=1 << 20,
    )
    for delta, record in enumerate(RECORDS):
        assert builder.append(delta, record.timestamp, record.key, record.value, record.headers) is not None
    batch = RecordBatch.parse(bytearray(builder.build()))
    assert batch.crc_ok()
    assert batch.validation_error(1 << 20) == 0
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (8, 3, 100)
    assert (batch.compression, batch.record_count, batch.is_transactional) == (codec, 5, True)
    assert batch.max_timestamp == 1_700_000_000_005
    batch.stamp(500, 9)
    assert contents(list(read_records(batch))) == expected(500)


@pytest.mark.parametrize(("peer", "codec"), PEERS)
def test_our_batches_are_read_by_others(peer: Any, codec: Compression) -> None:
    """What we build is accepted and read by a client's own reader."""
    data = build_batch(RECORDS, base_offset=40, compression=codec, producer_id=8, base_sequence=100)
    batch = peer.DefaultRecordBatch(data)
    assert batch.validate_crc()
    assert (batch.base_offset, batch.compression_type, batch.is_control_batch) == (40, codec, False)
    assert contents(list(batch)) == expected(40)


def test_uncompressed_batches_are_the_same_bytes() -> None:
    """Without a codec in between there is one way to write a batch, and all agree on it."""
    batches = []
    for peer in (AIOKAFKA, KAFKA_PYTHON):
        builder = peer.DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 20,
        )
        for delta, record in enumerate(RECORDS):
            builder.append(delta, record.timestamp, record.key, record.value, record.headers)
        batch = RecordBatch.parse(bytearray(builder.build()))
        batch.stamp(0, -1)
        batches.append(bytes(batch.data))
    assert batches == [build_batch(RECORDS)] * 2


def test_log_append_time_hides_the_producers_clock() -> None:
    """A batch stamped by the broker has one timestamp, which aiokafka reads as we do."""
    data = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    ours = list(read_records(RecordBatch.parse(data)))
    theirs = list(AIOKAFKA.DefaultRecordBatch(data))
    assert {record.timestamp for record in ours} == {1_700_000_000_005}
    assert contents(ours) == contents(theirs)


@given(
    st.lists(
        st.builds(
            Record,
            timestamp=st.integers(0, 1 << 50),
            key=st.none() | st.binary(max_size=200),
            value=st.none() | st.binary(max_size=200),
            headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(CODECS),
    st.integers(0, 1 << 60),
)
@settings(max_examples=300)
def test_records_survive(records: list[Record], codec: Compression, base_offset: int) -> None:
    """Whatever the records and the codec, they come out as they went in."""
    data = build_batch(records, base_offset=base_offset, compression=codec)
    for delta, record in enumerate(records):
        record.offset = base_offset + delta
    assert list(read_records(RecordBatch.parse(data))) == records


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("offset", [11, 13])
def test_the_rest_of_a_batch(codec: Compression, offset: int) -> None:
    """From an offset on: the same records at the same offsets, with the sequence numbers that they had."""
    content = build_batch(
        RECORDS * 2,
        base_offset=10,
        compression=codec,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=2**31 - 1,
    )
    whole = RecordBatch.parse(bytearray(content))
    rest = records_from(whole, offset)
    assert rest.crc_ok()
    assert (rest.base_offset, rest.next_offset) == (offset, whole.next_offset)
    assert (rest.leader_epoch, rest.producer_id, rest.producer_epoch) == (3, 7, 1)
    assert rest.base_sequence == offset - 11
    assert list(read_records(rest)) == [record for record in read_records(whole) if record.offset >= offset]


def test_the_rest_of_a_compacted_batch_keeps_its_gaps() -> None:
    records = [Record(12, 5, b"k", b"v"), Record(17, 6, b"l", b"w")]
    whole = RecordBatch.parse(bytearray(build_batch(records, base_offset=10, next_offset=20)))
    assert [record.offset for record in read_records(records_from(whole, 13))] == [17]
    nothing = records_from(whole, 18)
    assert (nothing.base_offset, nothing.next_offset, nothing.record_count) == (18, 20, 0)


def test_a_batch_has_records() -> None:
    """There is no empty batch to build."""
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_records_must_fill_their_batch_exactly() -> None:
    """One record too few, one too many, and a record that lies about its length are noticed."""
    body = build_batch(RECORDS)
    for count in (0, 4, 6, 1 << 30, -1):
        batch = RecordBatch.parse(body)
        batch.record_count = count
        with pytest.raises(CorruptBatch):
            list(read_records(batch))


# ---------------------------------------------------------------- codecs


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"a", bytes(300_000), bytes(range(256)) * 40], ids=len)
def test_codecs_invert(codec: Compression, data: bytes) -> None:
    """Every codec gives back what it was given, also where it shrinks to almost nothing."""
    assert decompress(compress(data, codec), codec) == data


def test_snappy_as_java_writes_it() -> None:
    """The Java client frames snappy in blocks of its own; librdkafka does not. Both are read."""
    blocks = [b"hello " * 1000, b"", b"world"]
    framed = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
    for block in blocks:
        packed = bytes(cramjam.snappy.compress_raw(block))
        framed += len(packed).to_bytes(4, "big") + packed
    assert decompress(framed, Compression.SNAPPY) == b"".join(blocks)
    for cut in (1, 3, 7):
        with pytest.raises(ProtocolError):
            decompress(framed[:-cut], Compression.SNAPPY)
    with pytest.raises(ProtocolError, match="beyond its batch"):
        decompress(framed[:16] + b"\x7f\xff\xff\xff", Compression.SNAPPY)


def test_gzip_of_several_members_is_read_whole() -> None:
    """gzip files may be concatenated, and a client that flushes early writes such."""
    assert decompress(gzip.compress(b"one ") + gzip.compress(b"two"), Compression.GZIP) == b"one two"


@pytest.mark.parametrize("codec", CODECS[1:])
def test_bombs_do_not_go_off(codec: Compression) -> None:
    """Bytes that inflate to more than the reader allows are refused, at the limit exactly."""
    bomb = compress(bytes(2_000_000), codec)
    assert len(decompress(bomb, codec, limit=2_000_000)) == 2_000_000
    with pytest.raises(ProtocolError, match="inflates to more"):
        decompress(bomb, codec, limit=1_999_999)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_garbage_is_refused(codec: Compression) -> None:
    """What no compressor wrote is a ProtocolError, and so is what was cut off."""
    with pytest.raises(ProtocolError, match=codec.name.lower()):
        decompress(b"\xffgarbage" * 9, codec)
    with pytest.raises(ProtocolError):
        decompress(compress(bytes(range(256)) * 9, codec)[:-3], codec)


def test_an_unknown_codec_is_refused() -> None:
    """Codecs 5 to 7 do not exist."""
    batch = RecordBatch.parse(build_batch(RECORDS))
    batch.attributes = 6
    with pytest.raises(CorruptBatch, match="codec 6"):
        list(read_records(batch))
