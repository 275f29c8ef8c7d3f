"""Kafka's own tool shows the eligible leader replicas (KIP-966) that brokers under the rules `elr` track."""

from __future__ import annotations

import re
from functools import partial

import pytest
from bench.apache_kafka import ApacheKafka, run_tool
from bench.processes import LOOPBACK, eventually
from tests.against import Against
from tests.clients.conftest import Cluster, Topics, watched_up

DESCRIBED = re.compile(r"Leader: (\S+)\s+Replicas: \S+\s+Isr: (\S*)\s+Elr: (\S*)\s+LastKnownElr: (\S*)")


def described(servers: str, topic: str) -> tuple[str, str, str, str]:
    """Leader, ISR, eligible leader replicas and last known leader of the only partition, as the tool says."""
    command = ("--bootstrap-server", servers, "--describe", "--topic", topic)
    said = run_tool("org.apache.kafka.tools.TopicCommand", *command)
    found = DESCRIBED.search(said)
    assert found, said
    leader, isr, eligible, last = found.groups()
    return leader, ",".join(sorted(isr.split(","))), eligible, last


@pytest.mark.slow
def test_replica_that_leaves_below_the_minimum_is_eligible(
    against: Against, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One that leaves an ISR that stays at `min.insync.replicas` is not."""
    if against.servers:
        pytest.skip("the brokers of a cluster that runs elsewhere cannot be stopped")
    folder = tmp_path_factory.mktemp("cluster") / "data"
    with (
        ApacheKafka(folder, own_controller=True)
        if against.kafka
        else watched_up(folder, settings={"tidelog.generation": "elr"})
    ) as system:
        addresses = {node.id: f"{LOOPBACK}:{node.port}" for node in system.nodes.values()}
        topic = Topics(Cluster(system.bootstrap_servers)).new(min_insync_replicas=2)
        kept, second, first = sorted(addresses)

        def shows(*wanted: str) -> None:
            seen = partial(described, addresses[kept], topic)
            eventually(lambda: seen()[1:] == wanted, f"ISR, eligible and last known leader are {wanted}")

        shows(",".join(map(str, sorted(addresses))), "", "")
        system.stop_broker(first)
        shows(f"{kept},{second}", "", "")
        system.stop_broker(second)
        shows(f"{kept}", f"{second}", "")
        assert described(addresses[kept], topic)[0] == f"{kept}"
        system.start_broker(second)
        shows(f"{kept},{second}", "", "")


@pytest.mark.slow
def test_none_is_eligible_where_brokers_do_not_track_it(cluster: Cluster, topics: Topics) -> None:
    """The Java client cannot read null there: it gets empty lists."""
    assert described(cluster.bootstrap_servers, topics.new())[2:] == ("", "")
