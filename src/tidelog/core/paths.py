"""Where Kafka keeps what in the coordination service (ZooKeeper mode)."""

from __future__ import annotations

from tidelog.core.types import BrokerId, TopicPartition

BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
ISR_NOTIFICATIONS = "/isr_change_notification"

PERSISTENT = (BROKERS, TOPICS, ISR_NOTIFICATIONS)
"""Nodes that exist in every cluster, whoever is alive."""


def broker_path(broker: BrokerId) -> str:
    return f"{BROKERS}/{broker}"


def broker_of(path: str) -> BrokerId:
    return BrokerId(int(path.rsplit("/", 1)[1]))


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partition_path(tp: TopicPartition) -> str:
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}"


def state_path(tp: TopicPartition) -> str:
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}/state"
