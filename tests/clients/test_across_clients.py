"""What one client writes every other client reads: the same bytes mean the same record to all of them."""

from __future__ import annotations

import pytest
from tests.clients.conftest import DRIVERS, Cluster, Topics
from tests.clients.drivers.base import CODECS, Driver, Headers, Outgoing


def records_of(writer: Driver, partition: int) -> list[Outgoing]:
    headers: Headers = (("a", b"1"), ("a", b"2"), ("empty", b""))
    if writer.sends_null_headers:
        headers += (("null", None),)
    said = b"from " + writer.name.encode()
    return [
        Outgoing(said, b"k", headers, timestamp_ms=1_600_000_000_000, partition=partition),
        Outgoing(None, bytes(range(256)), timestamp_ms=1_600_000_000_001, partition=partition),
        Outgoing(b"", None, partition=partition),
        Outgoing(said * 100, b"", partition=partition),
    ]


@pytest.fixture(scope="module")
def written(topics: Topics, cluster: Cluster) -> tuple[str, list[Outgoing]]:
    """A topic with a partition for each codec, and the records that every client wrote into each."""
    topic, sent = topics.new(partitions=len(CODECS), retention_ms=-1), []
    for kind in DRIVERS:
        writer = kind(cluster.bootstrap_servers)
        for codec in CODECS:
            records = records_of(writer, CODECS.index(codec))
            writer.produce(topic, records, codec=codec, linger_ms=5)
            sent += records
    return topic, sent


@pytest.mark.parametrize("codec", CODECS)
def test_each_reads_what_all_wrote(client: Driver, written: tuple[str, list[Outgoing]], codec: str) -> None:
    """Keys, values, headers and times written by each client are read by each client as they were meant."""
    topic, partition = written[0], CODECS.index(codec)
    sent = [record for record in written[1] if record.partition == partition]
    read = client.read(topic, 0, len(sent), partition)
    for got, record in zip(read, sent, strict=True):
        assert got.carries(record), (got, record)
