"""The cluster that real clients are pointed at, the clients, and topics to work with.

Without further ado a tidelog cluster of three brokers is started. The same tests run against a real Kafka:
see tests/against.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bench.apache_kafka import ApacheKafka
from bench.processes import PATIENCE_SECONDS, eventually
from bench.tidelog_up import TidelogUp
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.against import Against
from tests.broker.running import without_tracebacks
from tests.clients import raw
from tests.clients.drivers.aio_kafka import AioKafka
from tests.clients.drivers.base import Driver
from tests.clients.drivers.confluent import Confluent, quiet
from tests.clients.drivers.kafka_python import KafkaPython

DRIVERS: tuple[type[Driver], ...] = (Confluent, KafkaPython, AioKafka)


@dataclass
class Cluster:
    bootstrap_servers: str
    data_dirs: list[Path] = field(default_factory=list)
    """Where each broker keeps its partitions; empty for a cluster that was not started here."""

    @property
    def brokers(self) -> list[tuple[str, int]]:
        addresses = (address.rpartition(":") for address in self.bootstrap_servers.split(","))
        return [(host, int(port)) for host, _, port in addresses]


class Topics:
    """Makes topics with unique names."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._admin = AdminClient(quiet(cluster.bootstrap_servers))
        self._named: list[str] = []

    def name(self, what: str = "test") -> str:
        """A name for a topic that the test creates itself."""
        self._named.append(f"{what}-{uuid.uuid4().hex[:12]}")
        return self._named[-1]

    def new(self, partitions: int = 1, **config: str | int) -> str:
        """Create a topic and wait until every broker knows every leader."""
        name = self.name()
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        replicas = min(3, len(self._cluster.brokers))
        self._admin.create_topics([NewTopic(name, partitions, replicas, config=settings)])[name].result(
            PATIENCE_SECONDS
        )
        self.wait_until_known(name, partitions)
        return name

    def wait_until_known(self, name: str, partitions: int = 1) -> None:
        for broker in self._cluster.brokers:
            eventually(
                partial(self._knows, broker, name, partitions), f"{broker} knows the leaders of {name}"
            )

    def _knows(self, broker: tuple[str, int], name: str, partitions: int) -> bool:
        return len(raw.metadata(broker, name).leaders) == partitions

    def delete_all(self) -> None:
        present = self._admin.list_topics(timeout=PATIENCE_SECONDS).topics
        if left := [name for name in self._named if name in present]:
            for deleted in self._admin.delete_topics(left, operation_timeout=10).values():
                deleted.result(PATIENCE_SECONDS)


@contextmanager
def watched_up(folder: Path, **options: Any) -> Iterator[TidelogUp]:
    """``tidelog up``, of which no broker may have printed a traceback in the end."""
    said: list[str] = []
    with TidelogUp(folder, on_line=said.append, **options) as system:
        yield system
    without_tracebacks(said)


def start(against: Against, folder: Path) -> AbstractContextManager[TidelogUp | ApacheKafka]:
    """A new cluster of the kind that is tested."""
    return ApacheKafka(folder) if against.kafka else watched_up(folder)


@pytest.fixture(scope="package")
def cluster(against: Against, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if against.servers:
        yield Cluster(against.servers)
        return
    with start(against, tmp_path_factory.mktemp("cluster") / "data") as system:
        yield Cluster(system.bootstrap_servers, [node.data_dir for node in system.nodes.values()])


@pytest.fixture(scope="package")
def topics(cluster: Cluster) -> Iterator[Topics]:
    topics = Topics(cluster)
    yield topics
    topics.delete_all()


@pytest.fixture(scope="package")
def topic(topics: Topics) -> str:
    """A topic of three partitions that tests share: each looks only at what it wrote itself."""
    return topics.new(partitions=3)


@pytest.fixture(scope="package", params=DRIVERS, ids=lambda driver: driver.name)
def client(request: pytest.FixtureRequest, cluster: Cluster) -> Driver:
    driver: type[Driver] = request.param
    return driver(cluster.bootstrap_servers)
