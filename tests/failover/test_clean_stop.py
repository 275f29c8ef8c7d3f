"""Brokers that leave in order: they hand over first, and clients hardly notice."""

from __future__ import annotations

import pytest
from bench.processes import LOOPBACK, PATIENCE_SECONDS
from confluent_kafka import ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.clients import raw
from tests.failover.conftest import Controlled, NewTopic
from tests.failover.ledger import Load, Tail, read_all

pytestmark = pytest.mark.slow

PARTITIONS = 3


def test_leadership_moves_before_the_process_ends(cluster: Controlled, new_topic: NewTopic) -> None:
    """When a stopped broker's process has ended, the others know already who leads in its place.

    Back again it follows, until an election of the preferred replica is asked for.
    """
    topic = new_topic()
    first = cluster.leader_of(topic)
    cluster.stop_broker(first)
    for broker in cluster.brokers:
        if broker.id != first:
            known = raw.metadata((LOOPBACK, broker.port), topic)
            assert known.leaders[0] not in (first, -1)
            assert first not in known.isr[0]
    second = cluster.leader_of(topic)
    cluster.start_broker(first)
    cluster.wait_isr(topic, 3)
    assert cluster.leader_of(topic) == second
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    where = TopicPartition(topic, 0)
    answer = admin.elect_leaders(ElectionType.PREFERRED, [where]).result(PATIENCE_SECONDS)
    assert answer[where] is None
    assert cluster.leader_of(topic) == first


def test_no_send_waits_for_a_broker_that_has_stopped(
    cluster: Controlled, new_topic: NewTopic, brokers: list[int]
) -> None:
    """A leader that has handed over does not come back into the ISR with a last fetch: acks=all would wait
    for replica.lag.time.max.ms, half a minute. Apache Kafka 2.7.1 and 4.3.1 do not wait either."""
    partitions = 12
    topic = new_topic(partitions)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "reconnect.backoff.max.ms": 100})
    for broker in brokers:
        cluster.stop_broker(broker)
        for partition in range(partitions):
            producer.produce(topic, b"x", partition=partition)
        assert producer.flush(15) == 0
        cluster.start_broker(broker)
        cluster.wait_isr(topic, 3)


def test_a_rolling_restart(cluster: Controlled, new_topic: NewTopic, brokers: list[int]) -> None:
    """Stopping and starting every broker in turn under load loses, repeats and refuses nothing."""
    topic = new_topic(PARTITIONS)
    servers = cluster.bootstrap_servers
    with Tail(servers, topic, PARTITIONS) as tail, Load(servers, topic, PARTITIONS) as load:
        for broker in brokers:
            load.wait_for(100)
            cluster.stop_broker(broker)
            load.wait_for(100)
            cluster.start_broker(broker)
            cluster.wait_isr(topic, 3)
        load.wait_for(100)
    assert not load.ledger.failed
    log = read_all(servers, topic, PARTITIONS)
    load.ledger.audit(log, ordered_and_once=True)
    tail.audit(log)
