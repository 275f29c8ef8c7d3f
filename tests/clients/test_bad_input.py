"""Bytes that no client should send. Each test offends one connection; every other one must not notice."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator

import pytest
from tests.clients import raw
from tests.clients.conftest import Cluster, Topics
from tests.clients.raw import Connection

HTTP = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture(scope="module")
def victim(topics: Topics) -> str:
    return topics.new()


@pytest.fixture
def leader(cluster: Cluster, victim: str) -> Iterator[tuple[str, int]]:
    """The broker that is offended. Afterwards both an old and a new connection to it still work."""
    address = raw.leader_address(cluster.brokers[0], victim)
    with Connection(address) as bystander:
        yield address
        for connection in (bystander, Connection(address)):
            with connection:
                body = raw.produce_body(victim, raw.batch([b"still here"]))
                answer = raw.produced(connection.ask(raw.PRODUCE, raw.PRODUCE_VERSION, body))
                assert answer.error == raw.NONE


def produce(address: tuple[str, int], topic: str, records: bytes, **fields: int) -> raw.Produced:
    with Connection(address) as connection:
        body = raw.produce_body(topic, records, **fields)
        return raw.produced(connection.ask(raw.PRODUCE, raw.PRODUCE_VERSION, body))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(HTTP, id="http"),
        pytest.param(struct.pack(">i", 0x7FFFFFFF), id="two-gigabytes"),
        pytest.param(struct.pack(">i", -1), id="negative-length"),
        pytest.param(struct.pack(">i", -(2**31)), id="most-negative-length"),
        pytest.param(struct.pack(">i", 4) + b"\xff" * 4, id="too-short-for-a-header"),
        pytest.param(raw.frame(9_999, 0, 1, b""), id="unknown-api"),
        pytest.param(raw.frame(-1, 0, 1, b""), id="negative-api"),
        pytest.param(raw.frame(raw.METADATA, 99, 1, b"\0"), id="unsupported-version"),
        pytest.param(raw.frame(raw.METADATA, -1, 1, b"\0"), id="negative-version"),
        pytest.param(raw.frame(raw.METADATA, 4, 1, struct.pack(">i", 0x7FFFFFFF)), id="huge-array"),
        pytest.param(raw.frame(raw.METADATA, 4, 1, struct.pack(">ih", 1, 0x7FFF) + b"x"), id="cut-string"),
        pytest.param(raw.frame(raw.PRODUCE, 7, 1, b"\xff" * 50), id="garbage-body"),
        pytest.param(raw.frame(raw.METADATA, 9, 1, b"\0" + b"\xff" * 50), id="endless-varint"),
    ],
)
def test_nonsense_closes_the_connection(leader: tuple[str, int], data: bytes) -> None:
    """What cannot be understood ends the connection that brought it, without an answer."""
    with Connection(leader) as connection:
        connection.send(data)
        assert connection.is_closed_by_peer()


def test_half_a_frame(leader: tuple[str, int], victim: str) -> None:
    """A client may vanish at any byte of a request."""
    whole = raw.frame(raw.METADATA, raw.METADATA_VERSION, 1, raw.metadata_body(victim))
    for length in range(len(whole)):
        with Connection(leader) as connection:
            connection.send(whole[:length])


def test_vanishing_while_a_fetch_waits(leader: tuple[str, int], victim: str) -> None:
    """A client may vanish while its fetch is waiting for data."""
    for _ in range(20):
        with Connection(leader) as connection:
            body = raw.fetch_body(victim, 0, wait_ms_max=300, bytes_min=1 << 30)
            connection.request(raw.FETCH, raw.FETCH_VERSION, body)


def test_many_connections(leader: tuple[str, int]) -> None:
    """Hundreds of connections may be open at once, idle or half way through a request, and go away."""
    with contextlib.ExitStack() as stack:
        for number in range(300):
            connection = stack.enter_context(Connection(leader))
            if number % 3:
                connection.send(struct.pack(">i", 100) + bytes(number % 100))


def test_dribbling(leader: tuple[str, int], victim: str) -> None:
    """A request that comes byte by byte is answered, and others are served meanwhile."""
    whole = raw.frame(raw.METADATA, raw.METADATA_VERSION, 1, raw.metadata_body(victim))
    with Connection(leader) as slow, Connection(leader) as other:
        for position in range(len(whole)):
            slow.send(whole[position : position + 1])
            if position % 8 == 0:
                other.ask(raw.METADATA, raw.METADATA_VERSION, raw.metadata_body(victim))
        assert slow.response()[0] == 1


def test_answers_come_in_order(leader: tuple[str, int], victim: str) -> None:
    """Requests sent without waiting are answered in their order, also behind a fetch that waits."""
    with Connection(leader) as connection:
        started = time.monotonic()
        waiting = raw.fetch_body(victim, 0, wait_ms_max=400, bytes_min=1 << 30)
        sent = [connection.request(raw.FETCH, raw.FETCH_VERSION, waiting)]
        body = raw.produce_body(victim, raw.batch([b"behind a fetch"]))
        for _ in range(30):
            sent.append(connection.request(raw.METADATA, raw.METADATA_VERSION, raw.metadata_body(victim)))
            sent.append(connection.request(raw.PRODUCE, raw.PRODUCE_VERSION, body))
        assert [connection.response()[0] for _ in sent] == sent
        assert time.monotonic() - started >= 0.4


def test_no_answer_without_acks(leader: tuple[str, int], victim: str) -> None:
    """A produce request that wants no acknowledgement gets none; the next request gets the next answer."""
    with Connection(leader) as connection:
        body = raw.produce_body(victim, raw.batch([b"quiet"]), acks=0)
        connection.request(raw.PRODUCE, raw.PRODUCE_VERSION, body)
        connection.ask(raw.METADATA, raw.METADATA_VERSION, raw.metadata_body(victim))


def test_unsupported_api_versions_request(leader: tuple[str, int]) -> None:
    """A client from the future learns which version of ApiVersions to use, in the form that all can read."""
    with Connection(leader) as connection:
        fields = connection.ask(raw.API_VERSIONS, 99, b"\0")
        assert fields.int16() == raw.UNSUPPORTED_VERSION
        ranges = [(fields.int16(), fields.int16(), fields.int16()) for _ in range(fields.int32())]
        assert fields.rest() == b""
        assert any(key == raw.API_VERSIONS and low == 0 and high >= 3 for key, low, high in ranges)
        # The connection still works, in the version that the answer named.
        assert connection.ask(raw.API_VERSIONS, 0, b"").int16() == raw.NONE


def test_wrong_checksum(leader: tuple[str, int], victim: str) -> None:
    """A batch that was damaged on its way is refused and not stored."""
    assert produce(leader, victim, raw.batch([b"damaged"], crc=1)).error == raw.CORRUPT_MESSAGE
    damaged = bytearray(raw.batch([b"damaged"]))
    damaged[-3] ^= 1
    assert produce(leader, victim, bytes(damaged)).error == raw.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("records", "errors"),
    [
        pytest.param(raw.batch([b"a"]) + raw.batch([b"b"]), {raw.INVALID_RECORD}, id="two-batches"),
        pytest.param(raw.batch([b"a"], count=5), {raw.INVALID_RECORD}, id="wrong-count"),
        pytest.param(raw.batch([b"a"], count=0), {raw.INVALID_RECORD}, id="no-records"),
        pytest.param(b"", {raw.INVALID_RECORD}, id="no-batch"),
        # What a cut batch is called depends on where the reader notices.
        pytest.param(raw.batch([b"a"])[:-1], {raw.INVALID_RECORD, raw.CORRUPT_MESSAGE}, id="cut-batch"),
        pytest.param(bytes(40), {raw.INVALID_RECORD, raw.CORRUPT_MESSAGE}, id="zeros"),
        pytest.param(raw.batch([b"a"], magic=7), {raw.INVALID_RECORD, raw.CORRUPT_MESSAGE}, id="magic-7"),
    ],
)
def test_malformed_records(leader: tuple[str, int], victim: str, records: bytes, errors: set[int]) -> None:
    """Records that are not exactly one well-formed batch are refused; the request as such is answered."""
    assert produce(leader, victim, records).error in errors


def test_largest_batch_to_the_byte(leader: tuple[str, int], topics: Topics, cluster: Cluster) -> None:
    """A batch as large as the topic allows passes; one byte more does not."""
    topic = topics.new(max_message_bytes=5_000)
    address = raw.leader_address(cluster.brokers[0], topic)
    overhead = len(raw.batch([bytes(4_000)])) - 4_000
    assert produce(address, topic, raw.batch([bytes(5_000 - overhead)])) == raw.Produced(raw.NONE, 0)
    assert produce(address, topic, raw.batch([bytes(5_001 - overhead)])).error == raw.MESSAGE_TOO_LARGE
    assert produce(address, topic, raw.batch([b"next"])).base_offset == 1


def test_where_and_how_to_produce(leader: tuple[str, int], victim: str, cluster: Cluster) -> None:
    """Unknown topics and partitions, other brokers than the leader and impossible acks are named as such."""
    records = raw.batch([b"misplaced"])
    assert produce(leader, "no-such-topic", records).error == raw.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(leader, victim, records, partition=7).error == raw.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(leader, victim, records, acks=5).error == raw.INVALID_REQUIRED_ACKS
    for other in cluster.brokers:
        if other != leader:
            assert produce(other, victim, records).error == raw.NOT_LEADER_OR_FOLLOWER


def test_where_to_fetch(leader: tuple[str, int], victim: str) -> None:
    """Offsets outside the log and unknown topics are named as such, at once."""
    with Connection(leader) as connection:

        def error(topic: str, offset: int) -> int:
            body = raw.fetch_body(topic, offset, wait_ms_max=60_000)
            return raw.fetched(connection.ask(raw.FETCH, raw.FETCH_VERSION, body)).error

        assert error(victim, 1 << 40) == raw.OFFSET_OUT_OF_RANGE
        assert error(victim, -5) == raw.OFFSET_OUT_OF_RANGE
        assert error("no-such-topic", 0) == raw.UNKNOWN_TOPIC_OR_PARTITION


def test_repeated_and_skipped_sequences(leader: tuple[str, int], victim: str) -> None:
    """A batch sent again is acknowledged where it was, not stored twice; a gap in the sequence is refused."""
    with Connection(leader) as connection:
        fields = connection.ask(raw.INIT_PRODUCER_ID, 1, raw.string(None) + struct.pack(">i", 60_000))
        fields.int32()
        assert fields.int16() == raw.NONE
        producer_id, epoch = fields.int64(), fields.int16()

    def send(values: list[bytes], sequence: int, epoch: int = epoch) -> raw.Produced:
        return produce(leader, victim, raw.batch(values, producer=(producer_id, epoch, sequence)))

    first = send([b"a", b"b", b"c"], 0)
    assert first.error == raw.NONE
    second = send([b"d"], 3)
    assert second == raw.Produced(raw.NONE, first.base_offset + 3)
    again = (send([b"a", b"b", b"c"], 0), send([b"d"], 3))
    assert [each.error for each in again] == [raw.NONE, raw.NONE]
    assert [each.base_offset for each in again] == [first.base_offset, second.base_offset]
    assert send([b"f"], 5).error == raw.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send([b"e"], 4) == raw.Produced(raw.NONE, second.base_offset + 1)
    assert send([b"old"], 5, epoch - 1).error == raw.INVALID_PRODUCER_EPOCH
