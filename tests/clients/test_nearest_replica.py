"""A real client reads from the replica in its own rack (KIP-392)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bench.processes import eventually
from confluent_kafka import Consumer, Producer, TopicPartition

from tidelog.cluster.cluster import Cluster

AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
TOPIC = "near"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Broker 1 leads in rack az1, 2 and 3 follow in az2 and az3."""
    with Cluster(brokers=3, settings={"replica.selector.class": AWARE}) as running:
        running.topic(TOPIC, replicas=[[1, 2, 3]])
        yield running


def place(read_at: dict[str, int]) -> Callable[[str], None]:
    def heard(statistics: str) -> None:
        partition = json.loads(statistics)["topics"].get(TOPIC, {}).get("partitions", {}).get("0")
        if partition is not None:
            read_at.update(broker=partition["broker"], leader=partition["leader"])

    return heard


@pytest.mark.slow
@pytest.mark.parametrize(("rack", "broker"), [("az2", 2), ("az3", 3), ("az1", 1), (None, 1)])
def test_a_consumer_reads_in_its_rack(cluster: Cluster, rack: str | None, broker: int) -> None:
    """It is where the leader sends it, and gets what is produced there; librdkafka says where it reads."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    read_at: dict[str, int] = {}
    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": f"readers-{rack}",
        "statistics.interval.ms": 50,
        "stats_cb": place(read_at),
    }
    if rack is not None:
        settings["client.rack"] = rack
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values: list[bytes | None] = []

        def reads_there() -> bool:
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                values.append(message.value())
            return read_at == {"broker": broker, "leader": 1}

        eventually(reads_there, f"the consumer reads at broker {broker}")
        producer.produce(TOPIC, f"to {rack}".encode())
        assert producer.flush(60) == 0
        eventually(lambda: reads_there() and f"to {rack}".encode() in values, "the record is read")
    finally:
        consumer.close()
