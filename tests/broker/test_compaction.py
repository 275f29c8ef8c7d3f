"""Compacted topics as clients see them: the last value of every key, from any replica, and no key missing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest
from bench.processes import PATIENCE_SECONDS
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.broker.running import (
    QUIET,
    Lines,
    create,
    eventually,
    log_folder,
    without_tracebacks,
)

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec

pytestmark = pytest.mark.slow

KEYS = 20
COUNT = 2_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    lines = Lines()
    settings = {"log.cleaner.backoff.ms": "100", "zookeeper.session.timeout.ms": "2000"}
    folder = tmp_path_factory.mktemp("compaction")
    with Cluster(ClusterSpec(brokers=2, settings=settings), folder, on_line=lines) as running:
        yield running
    without_tracebacks(line for _, line in lines.said)


def send(cluster: Cluster, topic: str, pairs: Sequence[tuple[str | None, str | None]]) -> list[KafkaError]:
    """Returns why records were refused."""
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append(error)

    settings = {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, **QUIET}
    producer = Producer({**settings, "batch.num.messages": 50})
    for key, value in pairs:
        producer.produce(topic, value, key, partition=0, on_delivery=delivered)
    assert producer.flush(PATIENCE_SECONDS) == 0
    return refused


def read(cluster: Cluster, topic: str) -> tuple[int, dict[str, str | None]]:
    """The last values that a consumer from the beginning sees, and the number of records."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    known: dict[str, str | None] = {}
    count = 0
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for message in consumer.consume(500, timeout=0.2):
                error = message.error()
                if error is None:
                    count += 1
                    value = message.value()
                    known[(message.key() or b"").decode()] = None if value is None else value.decode()
                elif error.code() == KafkaError._PARTITION_EOF:
                    return count, known
    finally:
        consumer.close()
    raise AssertionError(f"no end after {count} records")


def size(cluster: Cluster, number: int, topic: str) -> int:
    total = 0
    for path in log_folder(cluster, number, topic).glob("*.log"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            return 1 << 62  # it is being replaced
    return total


def test_a_topic_shrinks_to_the_last_value_of_every_key(cluster: Cluster) -> None:
    """On every replica by itself; a consumer from the beginning gets them all, from any leader, also after a
    crash."""
    create(
        cluster,
        "state",
        replicas=2,
        cleanup_policy="compact",
        segment_bytes=30_000,
        min_cleanable_dirty_ratio="0.05",
    )
    pairs = [(f"key {n % KEYS}", f"{n} {'x' * 100}") for n in range(COUNT)]
    # One key comes to an end; it is long gone from the active segment then.
    sent = [*pairs, ("key 3", None), *((key, value) for key, value in pairs if key != "key 3")]
    assert send(cluster, "state", sent) == []
    expected = dict(sent)
    assert len(expected) == KEYS
    written = sum(len(value or "") for _, value in sent)
    eventually(
        lambda: all(size(cluster, number, "state") < written / 4 for number in (1, 2)), "both have shrunk"
    )
    count, known = read(cluster, "state")
    assert known == expected
    assert count < len(sent) / 4
    leader = cluster.leader_of("state")
    cluster.kill(leader)
    cluster.leader_of("state")
    assert read(cluster, "state")[1] == expected
    cluster.start_broker(leader)
    cluster.wait_isr("state", 2)
    assert send(cluster, "state", [("key 1", "new")]) == []
    assert read(cluster, "state")[1] == expected | {"key 1": "new"}


def test_records_without_a_key_are_refused(cluster: Cluster) -> None:
    """In a compacted topic, because they could never be replaced. Other topics accept them."""
    create(cluster, "keyed", cleanup_policy="compact")
    create(cluster, "any", cleanup_policy="delete")
    assert send(cluster, "any", [(None, "value")]) == []
    (refused,) = send(cluster, "keyed", [(None, "value")])
    assert refused.code() == KafkaError.INVALID_RECORD
    mixed = send(cluster, "keyed", [("one", "value"), (None, "value"), (None, "other")])
    assert [error.code() for error in mixed] == [
        KafkaError._INVALID_DIFFERENT_RECORD,  # it shared the batch of those that are at fault
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_RECORD,
    ]
    assert send(cluster, "keyed", [("key", "value")]) == []
    assert read(cluster, "keyed") == (1, {"key": "value"})
