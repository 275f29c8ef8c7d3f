"""What each client may send, and that exactly that comes back."""

from __future__ import annotations

import pytest
from tests.clients import raw
from tests.clients.conftest import Cluster, Topics
from tests.clients.drivers.base import CODECS, Driver, Headers, Incoming, Outgoing, Refused

MESSAGE_TOO_LARGE = 10


def sent_and_read(client: Driver, topic: str, records: list[Outgoing], **settings: object) -> list[Incoming]:
    """Send records to one partition and read as many from where they were put."""
    offsets = client.produce(topic, records, **settings)  # type: ignore[arg-type]
    first = offsets[0]
    assert first is not None
    assert offsets == list(range(first, first + len(records)))
    return client.read(topic, first, len(records), records[0].partition)


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acks(client: Driver, topic: str, acks: int) -> None:
    """Records arrive once and in order however many acknowledgements the producer waits for."""
    records = [Outgoing(f"acks {acks} number {number}".encode()) for number in range(10)]
    end = client.watermarks(topic)[1]
    offsets = client.produce(topic, records, acks=acks)
    read = client.read(topic, end, len(records))
    assert [each.value for each in read] == [record.value for record in records]
    assert offsets == [each.offset if acks else None for each in read]


@pytest.mark.parametrize("codec", CODECS)
def test_compression(client: Driver, cluster: Cluster, topic: str, codec: str) -> None:
    """A batch is stored as its producer compressed it, and read back whole."""
    records = [Outgoing(b"%d " % number * 300, partition=1) for number in range(20)]
    read = sent_and_read(client, topic, records, codec=codec, linger_ms=20)
    assert all(got.carries(record) for got, record in zip(read, records, strict=True))

    leader = raw.leader_address(cluster.brokers[0], topic, 1)
    with raw.Connection(leader) as connection:
        body = raw.fetch_body(topic, read[0].offset, partition=1)
        stored = raw.fetched(connection.ask(raw.FETCH, raw.FETCH_VERSION, body))
    assert set(raw.codec_ids(stored.records)) == {CODECS.index(codec)}


def test_every_field(client: Driver, topic: str) -> None:
    """Null, empty and binary keys, values and headers stay apart; header order, repetition and time stay."""
    headers: Headers = (("twice", b"1"), ("twice", b"2"), ("empty", b""), ("bytes", bytes(range(256))))
    if client.sends_null_headers:
        headers += (("null", None),)
    records = [
        Outgoing(b"plain"),
        Outgoing(b"empty key", key=b""),
        Outgoing(b"binary key", key=bytes(range(256))),
        Outgoing(b"headers", key=b"k", headers=headers),
        Outgoing(None, key=b"tombstone"),
        Outgoing(b"", key=b"empty value"),
        Outgoing("naïve ☃".encode(), key=b"text"),
        Outgoing(b"early", timestamp_ms=1_000),
        Outgoing(b"late", timestamp_ms=1_700_000_000_123),
    ]
    read = sent_and_read(client, topic, records)
    for got, record in zip(read, records, strict=True):
        assert got.carries(record), (got, record)


def test_largest_record(client: Driver, topic: str) -> None:
    """A record just under the broker's default limit passes; one beyond it is refused by the broker."""
    fits = Outgoing(bytes(1_040_000), partition=2)
    assert sent_and_read(client, topic, [fits], request_bytes_max=1_048_576)[0].value == fits.value
    with pytest.raises(Refused) as refused:
        client.produce(topic, [Outgoing(bytes(1_060_000), partition=2)], request_bytes_max=2_000_000)
    assert refused.value.code == MESSAGE_TOO_LARGE


def test_topic_limit(client: Driver, topics: Topics) -> None:
    """A topic's own limit counts, smaller or larger than the broker's, and what it let in can be read."""
    small = topics.new(max_message_bytes=2_000)
    with pytest.raises(Refused) as refused:
        client.produce(small, [Outgoing(bytes(3_000))])
    assert refused.value.code == MESSAGE_TOO_LARGE
    assert client.watermarks(small) == (0, 0)

    large = topics.new(max_message_bytes=4_000_000)
    record = Outgoing(bytes(3_000_000))
    # Larger than what the consumer asks for at most: it still gets the first batch, else it would be stuck.
    assert sent_and_read(client, large, [record], request_bytes_max=4_000_000)[0].value == record.value


def test_many_partitions(client: Driver, topics: Topics) -> None:
    """Partitions are independent: each holds its own records at its own offsets, read by one consumer."""
    partitions = 12
    topic = topics.new(partitions=partitions)
    records = [
        Outgoing(f"{partition}/{number}".encode(), partition=partition)
        for number in range(5)
        for partition in range(partitions)
    ]
    client.produce(topic, records)
    with client.reader(topic, dict.fromkeys(range(partitions), 0)) as reader:
        read = reader.read(len(records))
    found = {(each.partition, each.offset): each.value for each in read}
    assert len(read) == len(records)
    assert found == {(p, n): f"{p}/{n}".encode() for p in range(partitions) for n in range(5)}


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_order_with_five_in_flight(client: Driver, topic: str, idempotent: bool) -> None:
    """Many small requests on their way at once keep their order, with and without sequence numbers."""
    records = [Outgoing(b"%d" % number, partition=1) for number in range(1_000)]
    read = sent_and_read(client, topic, records, idempotent=idempotent)
    assert [each.value for each in read] == [record.value for record in records]


def test_idempotent_over_partitions(client: Driver, topic: str) -> None:
    """One idempotent producer numbers each partition on its own; each holds its records once, in order."""
    before = {partition: client.watermarks(topic, partition)[1] for partition in range(3)}
    records = [Outgoing(b"%d" % number, partition=number % 3) for number in range(150)]
    client.produce(topic, records, idempotent=True, linger_ms=1)
    for partition, first in before.items():
        assert client.watermarks(topic, partition)[1] == first + 50
        expected = [record.value for record in records if record.partition == partition]
        assert [each.value for each in client.read(topic, first, 50, partition)] == expected
