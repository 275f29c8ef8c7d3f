"""A cluster whose brokers may be killed: tidelog, or Apache Kafka with `pytest --against kafka`.

The tests of a session share it; each finds all brokers running and leaves it to `heal` to make that so again.
Time-outs are short, because a test waits for each of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from bench.apache_kafka import ApacheKafka
from tests.against import Against
from tests.failover.apache import KafkaUnderControl

from tidelog import Cluster

SETTINGS = {
    "replica.lag.time.max.ms": "2000",
    "producer.id.expiration.ms": "3600000",
    # How often to look for such: ours does it along with retention, Kafka by a clock of its own.
    "log.retention.check.interval.ms": "500",
    "producer.id.expiration.check.interval.ms": "500",
}
KAFKA_SETTINGS = SETTINGS | {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "300"}

Controlled = Cluster | KafkaUnderControl
NewTopic = Callable[..., str]


@pytest.fixture(scope="package")
def running(against: Against, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controlled]:
    if against.servers:
        pytest.skip("the brokers of a cluster that runs elsewhere cannot be killed")
    if against.kafka:
        folder = tmp_path_factory.mktemp("kafka") / "data"
        with ApacheKafka(folder, settings=KAFKA_SETTINGS, own_controller=True) as system:
            yield KafkaUnderControl(system)
    else:
        with Cluster(settings=SETTINGS) as cluster:
            yield cluster


@pytest.fixture
def cluster(running: Controlled) -> Iterator[Controlled]:
    yield running
    assert running.heal() == []
    running.wait_in_sync()


@pytest.fixture
def new_topic(cluster: Controlled) -> NewTopic:
    """Creates topics with three replicas, two of which must be in sync; all are when it returns."""

    def create(partitions: int = 1) -> str:
        name = f"failover-{uuid.uuid4().hex[:12]}"
        cluster.topic(name, partitions, config={"min.insync.replicas": 2})
        cluster.wait_isr(name, 3)
        return name

    return create


@pytest.fixture
def brokers(cluster: Controlled) -> list[int]:
    return [broker.id for broker in cluster.brokers]
