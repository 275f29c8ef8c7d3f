"""Where each client may start to read, how long it waits, and which offsets it gets."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.clients.conftest import Cluster, Topics
from tests.clients.drivers.base import Driver, Outgoing, Refused
from tests.clients.drivers.confluent import Confluent

OFFSET_OUT_OF_RANGE = 1
EPOCH_MS = 1_600_000_000_000


@pytest.fixture(scope="module")
def numbered(topics: Topics, cluster: Cluster) -> str:
    """A topic whose record at offset n says n and has the time EPOCH_MS + n seconds, in batches of ten."""
    topic = topics.new(retention_ms=-1)
    for first in range(0, 100, 10):
        records = [
            Outgoing(b"%d" % number, timestamp_ms=EPOCH_MS + number * 1000)
            for number in range(first, first + 10)
        ]
        Confluent(cluster.bootstrap_servers).produce(topic, records, codec="gzip", linger_ms=50)
    return topic


@pytest.mark.parametrize("first", [0, 10, 37, 99])
def test_seek(client: Driver, numbered: str, first: int) -> None:
    """Reading starts exactly where asked, in the middle of a batch too."""
    read = client.read(numbered, first, 100 - first)
    assert [each.offset for each in read] == list(range(first, 100))
    assert [each.value for each in read] == [b"%d" % number for number in range(first, 100)]


def test_watermarks(client: Driver, numbered: str, topics: Topics) -> None:
    """Beginning and end are those of the log; an empty partition begins where it ends."""
    assert client.watermarks(numbered) == (0, 100)
    assert client.watermarks(topics.new()) == (0, 0)


@pytest.mark.parametrize(
    ("seconds", "offset"), [(-5, 0), (0, 0), (1, 1), (41.5, 42), (42, 42), (99, 99), (99.001, None)]
)
def test_offset_for_time(client: Driver, numbered: str, seconds: float, offset: int | None) -> None:
    """A time leads to the first record that is not older, to the record and not to its batch."""
    assert client.offset_for_time(numbered, EPOCH_MS + int(seconds * 1000)) == offset


@pytest.mark.parametrize("asked", [100_000, 101])
@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", None)])
def test_out_of_range_resets(
    client: Driver, topics: Topics, asked: int, reset: str, first: int | None
) -> None:
    """A consumer beyond the end starts again at the beginning or at the end, as configured."""
    topic = topics.new()
    client.produce(topic, [Outgoing(b"%d" % number) for number in range(100)], linger_ms=5)
    with client.reader(topic, {0: asked}, reset=reset) as reader, ThreadPoolExecutor(1) as background:
        if first is not None:
            assert [each.offset for each in reader.read(100)] == list(range(100))
            return
        # Nothing to see until something new arrives; when the consumer got to the end is not known, so send
        # again and again. Whatever it sees first is new, and from then on nothing is missing.
        reading = background.submit(reader.read, 1)
        while not reading.done():
            client.produce(topic, [Outgoing(b"new")])
        offsets = [each.offset for each in reading.result()]
        assert offsets
        assert offsets[0] >= 100
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))


def test_out_of_range_is_an_error_without_reset(client: Driver, numbered: str) -> None:
    """A consumer that must not jump gets OFFSET_OUT_OF_RANGE."""
    with client.reader(numbered, {0: 5_000}, reset="none") as reader, pytest.raises(Refused) as refused:
        reader.read(1)
    # librdkafka reports its own code, which names the policy that forbids the jump.
    assert refused.value.code in (OFFSET_OUT_OF_RANGE, -140)


def test_data_wakes_a_waiting_consumer(client: Driver, topics: Topics) -> None:
    """A fetch that may wait for a minute is answered as soon as there is a record."""
    topic = topics.new()
    started = time.monotonic()
    with client.reader(topic, {0: 0}, wait_ms_max=55_000) as reader, ThreadPoolExecutor(1) as background:
        assert reader.poll(0.5) == []
        waiting = background.submit(reader.read, 1, 50.0)
        client.produce(topic, [Outgoing(b"wake up")])
        assert [each.value for each in waiting.result()] == [b"wake up"]
    assert time.monotonic() - started < 50


def test_fetch_waits_for_enough_bytes(client: Driver, topics: Topics) -> None:
    """A fetch that wants more bytes than there are is answered when its time is over, with what there is."""
    topic = topics.new()
    client.produce(topic, [Outgoing(b"too little")])
    started = time.monotonic()
    with client.reader(topic, {0: 0}, wait_ms_max=700, bytes_min=100_000) as reader:
        assert [each.value for each in reader.read(1)] == [b"too little"]
        assert time.monotonic() - started >= 0.7


def test_enough_bytes_end_the_wait(client: Driver, topics: Topics) -> None:
    """A fetch that wants many bytes is answered once they are there, long before its time is over."""
    topic = topics.new()
    started = time.monotonic()
    waits = client.reader(topic, {0: 0}, wait_ms_max=55_000, bytes_min=50_000)
    with waits as reader, ThreadPoolExecutor(1) as background:
        waiting = background.submit(reader.read, 5, 50.0)
        client.produce(topic, [Outgoing(bytes(10_000)) for _ in range(10)])
        assert len(waiting.result()) >= 5
    assert time.monotonic() - started < 50


def test_reading_while_writing(client: Driver, topics: Topics) -> None:
    """A consumer that follows a producer sees every record once and in order."""
    topic = topics.new()
    rounds, each_round = 20, 25
    with client.reader(topic, {0: 0}) as reader, ThreadPoolExecutor(1) as background:
        reading = background.submit(reader.read, rounds * each_round, 60.0)
        sender = Confluent(client.bootstrap_servers)
        for number in range(rounds):
            sender.produce(topic, [Outgoing(b"%d/%d" % (number, item)) for item in range(each_round)])
        read = reading.result()
    assert [each.offset for each in read] == list(range(rounds * each_round))
    expected = [b"%d/%d" % (number, item) for number in range(rounds) for item in range(each_round)]
    assert [each.value for each in read] == expected
