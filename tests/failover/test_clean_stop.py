"""Brokers that leave in order: they hand over first, and clients hardly notice."""

from __future__ import annotations

import pytest
from bench.processes import PATIENCE_SECONDS
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.failover.control import ControlledCluster
from tests.failover.ledger import Load, Tail, read_all

pytestmark = pytest.mark.slow

PARTITIONS = 3


def test_leadership_moves_before_the_process_ends(cluster: ControlledCluster) -> None:
    """When a stopped broker's process has ended, the others know already who leads in its place.

    Back again it follows, until an election of the preferred replica is asked for.
    """
    topic = cluster.new_topic()
    first = cluster.leader(topic)
    cluster.stop(first)
    for number in cluster.reachable:
        known = cluster.ask(number, topic)
        assert known is not None
        assert known.leaders[0] in cluster.reachable
        assert first not in known.isr[0]
    second = cluster.leader(topic)
    cluster.start(first)
    cluster.wait_for_isr(topic, set(cluster.brokers))
    assert cluster.leader(topic) == second
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    where = TopicPartition(topic, 0)
    answer = admin.elect_leaders(ElectionType.PREFERRED, [where]).result(PATIENCE_SECONDS)
    assert answer[where] is None
    assert cluster.leader(topic) == first


def test_a_rolling_restart(cluster: ControlledCluster) -> None:
    """Stopping and starting every broker in turn under load loses, repeats and refuses nothing."""
    topic = cluster.new_topic(PARTITIONS)
    servers = cluster.bootstrap_servers
    with Tail(servers, topic, PARTITIONS) as tail, Load(servers, topic, PARTITIONS) as load:
        for broker in cluster.brokers:
            load.wait_for(100)
            cluster.stop(broker)
            load.wait_for(100)
            cluster.start(broker)
            cluster.wait_for_isr(topic, set(cluster.brokers), PARTITIONS)
        load.wait_for(100)
    assert not load.ledger.failed
    log = read_all(servers, topic, PARTITIONS)
    load.ledger.audit(log, ordered_and_once=True)
    tail.audit(log)
