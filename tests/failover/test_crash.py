"""Brokers that die or freeze under load: nothing acknowledged is lost, nothing seen is unseen."""

from __future__ import annotations

import pytest
from tests.failover.control import ControlledCluster
from tests.failover.ledger import Load, Tail, read_all

pytestmark = pytest.mark.slow

PARTITIONS = 3


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_the_leader_is_killed(cluster: ControlledCluster, idempotent: bool) -> None:
    """kill -9 of a leader costs no acknowledged record; another leads; the dead one returns into the ISR."""
    topic = cluster.new_topic(PARTITIONS)
    servers = cluster.bootstrap_servers
    load, tail = Load(servers, topic, PARTITIONS, idempotent=idempotent), Tail(servers, topic, PARTITIONS)
    with tail, load:
        load.wait_for(300)
        victim = cluster.leader(topic)
        cluster.kill9(victim)
        load.wait_for(100, partition=0)
        assert cluster.leader(topic) != victim
        cluster.start(victim)
        cluster.wait_for_isr(topic, set(cluster.brokers), PARTITIONS)
        load.wait_for(300)
    assert not load.ledger.failed
    log = read_all(servers, topic, PARTITIONS)
    load.ledger.audit(log, ordered_and_once=idempotent)
    tail.audit(log)


def test_the_controller_is_killed(cluster: ControlledCluster) -> None:
    """kill -9 of the controller: another takes over and still notices the next death."""
    topic = cluster.new_topic(PARTITIONS)
    with Load(cluster.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_for(200)
        first = cluster.controller()
        cluster.kill9(first)
        load.wait_for(200)
        assert cluster.controller() != first
        cluster.start(first)
        cluster.wait_for_isr(topic, set(cluster.brokers), PARTITIONS)
        victim = cluster.leader(topic)
        cluster.kill9(victim)
        load.wait_for(50, partition=0)
        cluster.start(victim)
        cluster.wait_for_isr(topic, set(cluster.brokers), PARTITIONS)
        load.wait_for(100)
    assert not load.ledger.failed
    load.ledger.audit(read_all(cluster.bootstrap_servers, topic, PARTITIONS), ordered_and_once=True)


def test_the_leader_freezes(cluster: ControlledCluster) -> None:
    """A leader that freezes is replaced; when it wakes, what it still believes does no harm."""
    topic = cluster.new_topic()
    with Tail(cluster.bootstrap_servers, topic, 1) as tail, Load(cluster.bootstrap_servers, topic, 1) as load:
        load.wait_for(200)
        zombie = cluster.leader(topic)
        cluster.pause(zombie)
        load.wait_for(200)
        assert cluster.leader(topic) != zombie
        cluster.resume(zombie)
        cluster.wait_for_isr(topic, set(cluster.brokers))
        load.wait_for(200)
    assert not load.ledger.failed
    log = read_all(cluster.bootstrap_servers, topic, 1)
    load.ledger.audit(log, ordered_and_once=True)
    tail.audit(log)


def test_a_follower_freezes(cluster: ControlledCluster) -> None:
    """A follower that freezes leaves the ISR, writes go on without it, and it returns when it wakes."""
    topic = cluster.new_topic()
    leader = cluster.leader(topic)
    sleeper = next(number for number in cluster.brokers if number not in (leader, cluster.controller()))
    with Load(cluster.bootstrap_servers, topic, 1) as load:
        load.wait_for(100)
        cluster.pause(sleeper)
        cluster.wait_for_isr(topic, set(cluster.brokers) - {sleeper})
        assert cluster.leader(topic) == leader
        load.wait_for(200)
        cluster.resume(sleeper)
        cluster.wait_for_isr(topic, set(cluster.brokers))
        load.wait_for(100)
    assert not load.ledger.failed
    load.ledger.audit(read_all(cluster.bootstrap_servers, topic, 1), ordered_and_once=True)


def test_all_are_killed(cluster: ControlledCluster) -> None:
    """kill -9 of every broker at once: after their return everything acknowledged is there."""
    topic = cluster.new_topic(PARTITIONS)
    with Load(cluster.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_for(500)
        for broker in cluster.brokers:
            cluster.kill9(broker)
        cluster.heal()
        cluster.wait_for_isr(topic, set(cluster.brokers), PARTITIONS)
        load.wait_for(100)
    assert not load.ledger.failed
    load.ledger.audit(read_all(cluster.bootstrap_servers, topic, PARTITIONS), ordered_and_once=True)
