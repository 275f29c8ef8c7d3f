"""A cluster whose brokers may be killed: tidelog, or Apache Kafka with `pytest --against kafka`.

The tests of a session share it; each finds all brokers running and leaves it to `heal` to make that so again.
Time-outs are short, because a test waits for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bench.apache_kafka import ApacheKafka
from bench.tidelog_up import TidelogUp
from tests.against import Against
from tests.failover.control import ControlledCluster

SETTINGS = {
    "replica.lag.time.max.ms": "2000",
    "producer.id.expiration.ms": "3600000",
    # How often to look for such: ours does it along with retention, Kafka by a clock of its own.
    "log.retention.check.interval.ms": "500",
    "producer.id.expiration.check.interval.ms": "500",
}
KAFKA_SETTINGS = SETTINGS | {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "300"}


def started(against: Against, tmp_path_factory: pytest.TempPathFactory) -> TidelogUp | ApacheKafka:
    if not against.kafka:
        return TidelogUp(tmp_path_factory.mktemp("tidelog") / "data", settings=SETTINGS)
    folder = tmp_path_factory.mktemp("kafka") / "data"
    return ApacheKafka(folder, settings=KAFKA_SETTINGS, own_controller=True)


@pytest.fixture(scope="session")
def running(against: Against, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlledCluster]:
    if against.servers:
        pytest.skip("the brokers of a cluster that runs elsewhere cannot be killed")
    with started(against, tmp_path_factory) as system:
        yield ControlledCluster(system)


@pytest.fixture
def cluster(running: ControlledCluster) -> Iterator[ControlledCluster]:
    running.heal()
    yield running
    running.heal()
