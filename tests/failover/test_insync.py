"""Too few replicas: refused rather than promised, and promised again once they are back."""

from __future__ import annotations

from itertools import count

import pytest
from bench.processes import eventually
from confluent_kafka import KafkaError, Message, Producer
from tests.failover.conftest import Controlled, NewTopic
from tests.failover.ledger import Ledger, Load, read_all

pytestmark = pytest.mark.slow


class SingleSends:
    """One record after the other, none of them sent twice by the client: every error is seen."""

    def __init__(self, cluster: Controlled, topic: str) -> None:
        self.ledger = Ledger()
        self._topic, self._numbers = topic, count()
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "log_level": 0,
                "acks": "all",
                "retries": 0,
                "request.timeout.ms": 3_000,
                "message.timeout.ms": 6_000,
            }
        )

    def send(self) -> int:
        """Send one record and return the error code, 0 for none."""
        value, outcome = b"single-%d" % next(self._numbers), []

        def delivered(error: KafkaError | None, message: Message) -> None:
            outcome.append(error.code() if error else 0)
            if error:
                self.ledger.failed[value] = error.code()
            else:
                offset = message.offset()
                assert offset is not None
                self.ledger.acknowledged[value] = (0, offset)

        self.ledger.sent.append((0, value))
        self._producer.produce(self._topic, value, partition=0, on_delivery=delivered)
        assert self._producer.flush(60) == 0
        return outcome[0]


def test_two_of_three_are_killed(cluster: Controlled, new_topic: NewTopic, brokers: list[int]) -> None:
    """With one replica left of three a record is refused and not stored; with two it is taken again."""
    topic = new_topic()
    leader = cluster.leader_of(topic)
    others = [number for number in brokers if number != leader]
    single = SingleSends(cluster, topic)
    assert [single.send() for _ in range(50)] == [0] * 50
    for number in others:
        cluster.kill(number)
    eventually(lambda: single.send() == KafkaError.NOT_ENOUGH_REPLICAS, "refused", 60.0)
    assert [single.send() for _ in range(5)] == [KafkaError.NOT_ENOUGH_REPLICAS] * 5
    cluster.start_broker(others[0])
    eventually(lambda: single.send() == 0, "taken again", 60.0)
    cluster.start_broker(others[1])
    cluster.wait_isr(topic, 3)
    assert [single.send() for _ in range(50)] == [0] * 50
    single.ledger.audit(read_all(cluster.bootstrap_servers, topic, 1), ordered_and_once=False)


def test_a_client_that_waits(cluster: Controlled, new_topic: NewTopic, brokers: list[int]) -> None:
    """A producer that retries outlasts the time with too few replicas; nothing is lost or there twice."""
    topic = new_topic()
    leader = cluster.leader_of(topic)
    others = [number for number in brokers if number != leader]
    with Load(cluster.bootstrap_servers, topic, 1) as load:
        load.wait_for(100)
        for number in others:
            cluster.kill(number)
        cluster.wait_isr(topic, {leader})
        for number in others:
            cluster.start_broker(number)
        cluster.wait_isr(topic, 3)
        load.wait_for(100)
    assert not load.ledger.failed
    load.ledger.audit(read_all(cluster.bootstrap_servers, topic, 1), ordered_and_once=True)
