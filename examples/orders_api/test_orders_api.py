"""What the service promises over HTTP is what Kafka holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from app import create_app
from confluent_kafka import Consumer, Producer, TopicPartition
from fastapi.testclient import TestClient

ClientConfig = Callable[[str], dict[str, Any]]
PATIENCE_SECONDS = 120.0


def held(config: dict[str, Any], topic: str) -> int:
    """How many records a consumer can read."""
    consumer = Consumer({**config, "group.id": "nobody"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_SECONDS)
    consumer.close()
    return end


def read(config: dict[str, Any], topic: str) -> list[str]:
    """Who the customers of the orders are that a consumer can read."""
    consumer = Consumer({**config, "group.id": "nobody"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_SECONDS)
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = [consumer.poll(PATIENCE_SECONDS).value() for _ in range(end)]
    consumer.close()
    return [json.loads(value)["customer"] for value in values if value.startswith(b"{")]


def test_an_order_is_taken_or_refused(
    kafka_faults: Any, kafka_client_config: ClientConfig, kafka_topic_factory: Callable[..., str]
) -> None:
    topic = kafka_topic_factory(config={"min.insync.replicas": "2"})
    config = kafka_client_config("confluent-kafka")
    with TestClient(create_app(config, topic)) as client:
        order = {"customer": "Ann", "product": "screw"}
        assert client.post("/orders", json=order).status_code == 201
        assert held(config, topic) == 1
        with kafka_faults.below_min_isr(topic):
            refused = client.post("/orders", json=order)
            assert refused.status_code == 503
            assert "try again" in refused.json()["detail"]
        assert client.post("/orders", json=order).status_code == 201
        assert held(config, topic) == 2


def test_a_taken_order_survives_its_leader(
    kafka_faults: Any, kafka_client_config: ClientConfig, kafka_topic_factory: Callable[..., str]
) -> None:
    """Only the leader has the order; then it dies."""
    topic = kafka_topic_factory(config={"min.insync.replicas": "2"})
    config = kafka_client_config("confluent-kafka")
    leader = kafka_faults.leader_of(topic)
    first, second = (number for number in kafka_faults.cluster.pids if number != leader)
    with TestClient(create_app(config, topic)) as client:
        with kafka_faults.hold_replication(first, leader), kafka_faults.hold_replication(second, leader):
            # It answers the fetches that wait at the leader already; the next ones are held.
            other = Producer({**config, "acks": "1"})
            other.produce(topic, "a record of another producer")
            other.flush()
            status = client.post("/orders", json={"customer": "Ann", "product": "screw"}).status_code
            kafka_faults.kill(leader)
            kafka_faults.cluster.wait_leader_not(leader, topic)
        assert status == 503 or "Ann" in read(config, topic)
        assert client.post("/orders", json={"customer": "Bob", "product": "nut"}).status_code == 201
        assert "Bob" in read(config, topic)


def test_nothing_hangs_while_the_leader_is_away(
    kafka_faults: Any, kafka_client_config: ClientConfig, kafka_topic: str
) -> None:
    """A paused leader answers nothing: the service answers with an error instead of waiting forever."""
    config = kafka_client_config("confluent-kafka")
    with TestClient(create_app(config, kafka_topic)) as client:
        with kafka_faults.pause(kafka_faults.leader_of(kafka_topic)):
            status = client.post("/orders", json={"customer": "Ann", "product": "screw"}).status_code
            assert status in (201, 503)  # by then another broker may lead
        kafka_faults.heal()
        assert client.post("/orders", json={"customer": "Bob", "product": "nut"}).status_code == 201
