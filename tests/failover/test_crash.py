"""Brokers that die or freeze under load: nothing acknowledged is lost, nothing seen is unseen."""

from __future__ import annotations

import pytest
from tests.failover.conftest import Controlled, NewTopic
from tests.failover.ledger import Load, Tail, read_all

pytestmark = pytest.mark.slow

PARTITIONS = 3


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_the_leader_is_killed(cluster: Controlled, idempotent: bool, new_topic: NewTopic) -> None:
    """kill -9 of a leader costs no acknowledged record; another leads; the dead one returns into the ISR."""
    topic = new_topic(PARTITIONS)
    servers = cluster.bootstrap_servers
    load, tail = Load(servers, topic, PARTITIONS, idempotent=idempotent), Tail(servers, topic, PARTITIONS)
    with tail, load:
        load.wait_for(300)
        victim = cluster.leader_of(topic)
        cluster.kill(victim)
        load.wait_for(100, partition=0)
        assert cluster.leader_of(topic) != victim
        cluster.start_broker(victim)
        cluster.wait_isr(topic, 3)
        load.wait_for(300)
    assert not load.ledger.failed
    log = read_all(servers, topic, PARTITIONS)
    load.ledger.audit(log, ordered_and_once=idempotent)
    tail.audit(log)


def test_the_controller_is_killed(cluster: Controlled, new_topic: NewTopic) -> None:
    """kill -9 of the controller: another takes over and still notices the next death."""
    topic = new_topic(PARTITIONS)
    with Load(cluster.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_for(200)
        first = cluster.controller
        cluster.kill(first)
        load.wait_for(200)
        assert cluster.controller != first
        cluster.start_broker(first)
        cluster.wait_isr(topic, 3)
        victim = cluster.leader_of(topic)
        cluster.kill(victim)
        load.wait_for(50, partition=0)
        cluster.start_broker(victim)
        cluster.wait_isr(topic, 3)
        load.wait_for(100)
    assert not load.ledger.failed
    load.ledger.audit(read_all(cluster.bootstrap_servers, topic, PARTITIONS), ordered_and_once=True)


def test_the_leader_freezes(cluster: Controlled, new_topic: NewTopic) -> None:
    """A leader that freezes is replaced; when it wakes, what it still believes does no harm."""
    topic = new_topic()
    with Tail(cluster.bootstrap_servers, topic, 1) as tail, Load(cluster.bootstrap_servers, topic, 1) as load:
        load.wait_for(200)
        zombie = cluster.leader_of(topic)
        cluster.pause(zombie)
        load.wait_for(200)
        assert cluster.leader_of(topic) != zombie
        cluster.resume(zombie)
        cluster.wait_isr(topic, 3)
        load.wait_for(200)
    assert not load.ledger.failed
    log = read_all(cluster.bootstrap_servers, topic, 1)
    load.ledger.audit(log, ordered_and_once=True)
    tail.audit(log)


def test_a_follower_freezes(cluster: Controlled, new_topic: NewTopic, brokers: list[int]) -> None:
    """A follower that freezes leaves the ISR, writes go on without it, and it returns when it wakes."""
    topic = new_topic()
    leader = cluster.leader_of(topic)
    sleeper = next(number for number in brokers if number not in (leader, cluster.controller))
    with Load(cluster.bootstrap_servers, topic, 1) as load:
        load.wait_for(100)
        cluster.pause(sleeper)
        cluster.wait_isr(topic, set(brokers) - {sleeper})
        assert cluster.leader_of(topic) == leader
        load.wait_for(200)
        cluster.resume(sleeper)
        cluster.wait_isr(topic, 3)
        load.wait_for(100)
    assert not load.ledger.failed
    load.ledger.audit(read_all(cluster.bootstrap_servers, topic, 1), ordered_and_once=True)


def test_all_are_killed(cluster: Controlled, new_topic: NewTopic, brokers: list[int]) -> None:
    """kill -9 of every broker at once: after their return everything acknowledged is there."""
    topic = new_topic(PARTITIONS)
    with Load(cluster.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_for(500)
        for broker in brokers:
            cluster.kill(broker)
        cluster.heal()
        cluster.wait_isr(topic, 3)
        load.wait_for(100)
    assert not load.ledger.failed
    load.ledger.audit(read_all(cluster.bootstrap_servers, topic, PARTITIONS), ordered_and_once=True)
