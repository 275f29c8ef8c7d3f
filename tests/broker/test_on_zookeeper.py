"""A cluster whose keeper is a real ZooKeeper: it works, fails over, and what it writes there is Kafka's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient  # type: ignore[import-untyped]
from tests.broker.running import (
    Lines,
    consume,
    create,
    eventually,
    partition,
    produce,
    without_tracebacks,
)
from tests.zookeeper import ZooKeeper

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec

pytestmark = pytest.mark.slow

TOPIC = "records"


class Nodes:
    """The nodes below the cluster's chroot, as plain kazoo reads them."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def text(self, path: str) -> str:
        return str(self._client.get(path)[0].decode("utf-8"))

    def json(self, path: str) -> Any:
        return json.loads(self.text(path))

    def names(self, path: str) -> list[str]:
        return sorted(self._client.get_children(path))

    def is_ephemeral(self, path: str) -> bool:
        return bool(self._client.get(path)[1].ephemeralOwner)


@pytest.fixture(scope="module")
def url(zookeeper: ZooKeeper) -> str:
    return zookeeper.url()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, url: str) -> Iterator[Cluster]:
    lines = Lines()
    folder: Path = tmp_path_factory.mktemp("on-zookeeper")
    settings = {"zookeeper.session.timeout.ms": "2000"}
    with Cluster(ClusterSpec(keeper=url, settings=settings), folder, on_line=lines) as running:
        create(running, TOPIC, partitions=2, retention_ms=1_000_000)
        yield running
    without_tracebacks(line for _, line in lines.said)


@pytest.fixture(scope="module")
def nodes(cluster: Cluster, url: str) -> Iterator[Nodes]:
    client = KazooClient(url.removeprefix("zookeeper://"))
    client.start(30)
    yield Nodes(client)
    client.stop()
    client.close()


def test_brokers_are_registered_as_kafka_does(cluster: Cluster, nodes: Nodes):
    assert nodes.names("/brokers/ids") == ["1", "2", "3"]
    for broker in cluster.brokers:
        path = f"/brokers/ids/{broker.id}"
        registered = nodes.json(path)
        assert registered["host"] == "127.0.0.1"
        assert registered["port"] == broker.port
        assert registered["endpoints"] == [f"PLAINTEXT://127.0.0.1:{broker.port}"]
        assert registered["listener_security_protocol_map"] == {"PLAINTEXT": "PLAINTEXT"}
        assert registered["version"] in (4, 5)
        assert registered["timestamp"].isdigit()
        assert nodes.is_ephemeral(path)


def test_the_controller_is_known(nodes: Nodes):
    controller = nodes.json("/controller")
    assert controller["version"] == 1
    assert controller["brokerid"] in (1, 2, 3)
    assert controller["timestamp"].isdigit()
    assert nodes.is_ephemeral("/controller")
    assert int(nodes.text("/controller_epoch")) >= 1
    assert re.fullmatch(r"[\w-]{22}", nodes.json("/cluster/id")["id"])


def test_topics_are_laid_out_as_kafka_does(nodes: Nodes):
    assigned = nodes.json(f"/brokers/topics/{TOPIC}")
    assert assigned["version"] in (1, 2, 3)
    assert {name: sorted(replicas) for name, replicas in assigned["partitions"].items()} == {
        "0": [1, 2, 3],
        "1": [1, 2, 3],
    }
    assert nodes.names(f"/brokers/topics/{TOPIC}/partitions") == ["0", "1"]
    for number in ("0", "1"):
        state = nodes.json(f"/brokers/topics/{TOPIC}/partitions/{number}/state")
        assert sorted(state) == ["controller_epoch", "isr", "leader", "leader_epoch", "version"]
        assert state["version"] == 1
        assert state["leader"] == assigned["partitions"][number][0]
        assert sorted(state["isr"]) == [1, 2, 3]
    assert nodes.json(f"/config/topics/{TOPIC}") == {"version": 1, "config": {"retention.ms": "1000000"}}


def test_leadership_moves_when_the_leader_is_killed(cluster: Cluster, nodes: Nodes):
    """ZooKeeper notices, the controller elects, and clients lose nothing; the broker comes back."""
    path = f"/brokers/topics/{TOPIC}/partitions/0/state"
    assert produce(cluster, TOPIC, ["before"]) == []
    leader = partition(cluster, TOPIC).leader
    before = nodes.json(path)
    cluster.kill(leader)
    cluster.leader_of(TOPIC)
    after = nodes.json(path)
    assert after["leader"] not in (leader, -1)
    assert after["leader_epoch"] > before["leader_epoch"]
    assert sorted(after["isr"]) == sorted({1, 2, 3} - {leader})
    assert str(leader) not in nodes.names("/brokers/ids")
    assert produce(cluster, TOPIC, ["after"]) == []
    assert [value for _, value in consume(cluster, TOPIC, 2)] == ["before", "after"]
    cluster.start_broker(leader)
    cluster.wait_isr(TOPIC, 3)
    eventually(lambda: sorted(nodes.json(path)["isr"]) == [1, 2, 3])
    assert nodes.names("/brokers/ids") == ["1", "2", "3"]
