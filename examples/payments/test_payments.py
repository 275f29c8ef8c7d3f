"""A payment that the application takes for sent is in Kafka, and none is forgotten."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from app import Payments
from confluent_kafka import Consumer, Producer

ClientConfig = Callable[[str], dict[str, Any]]
PATIENCE_SECONDS = 120
TWO_COPIES = {"min.insync.replicas": "2"}


def read_all(config: dict[str, Any], group: str, topic: str, sentinel: str) -> list[str]:
    """Everything up to a record that the test itself sent last."""
    consumer = Consumer({**config, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    deadline = time.monotonic() + PATIENCE_SECONDS
    values: list[str] = []
    while time.monotonic() < deadline and values[-1:] != [sentinel]:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
    consumer.close()
    return values


def test_below_min_isr_nothing_is_forgotten(
    kafka_faults: Any,
    kafka_client_config: ClientConfig,
    kafka_topic_factory: Callable[..., str],
    kafka_group: str,
) -> None:
    """While too few replicas are in sync Kafka refuses payments. They are sent when it takes them again."""
    topic = kafka_topic_factory(config=TWO_COPIES)
    payments = Payments(kafka_client_config("confluent-kafka"), topic)
    with kafka_faults.below_min_isr(topic):
        payments.pay("10 EUR to Ann")
        payments.settle()
        assert payments.confirmed == []
    while payments.outbox:
        payments.settle()
    payments.pay("the last")
    payments.settle()
    values = read_all(kafka_client_config("confluent-kafka"), kafka_group, topic, "the last")
    assert "10 EUR to Ann" in values


def test_a_confirmed_payment_survives_its_leader(
    kafka_faults: Any,
    kafka_client_config: ClientConfig,
    kafka_topic_factory: Callable[..., str],
    kafka_group: str,
) -> None:
    """Only the leader has the payment; then it dies."""
    topic = kafka_topic_factory(config=TWO_COPIES)
    config = kafka_client_config("confluent-kafka")
    payments = Payments(config, topic)
    leader = kafka_faults.leader_of(topic)
    followers = [number for number in kafka_faults.cluster.pids if number != leader]
    with (
        kafka_faults.hold_replication(followers[0], leader),
        kafka_faults.hold_replication(followers[1], leader),
    ):
        # It answers the fetches that wait at the leader already; the next ones are held.
        other = Producer({**config, "acks": "1"})
        other.produce(topic, "a record of another producer")
        other.flush()
        payments.pay("10 EUR to Ann")
        payments.settle()
        confirmed = list(payments.confirmed)
        kafka_faults.kill(leader)
        kafka_faults.cluster.wait_leader_not(leader, topic)
    while payments.outbox:
        payments.settle()
    payments.pay("the last")
    payments.settle()
    values = read_all(config, kafka_group, topic, "the last")
    assert set(confirmed) <= set(values)
    assert "10 EUR to Ann" in values
