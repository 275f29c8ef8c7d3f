"""librdkafka as the clients of a trial use it: settings, and names of errors. What an error means for a send
is in `evidence.outcomes`."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError

from tidelog.trials.load.workload import ConsumerPlan, ProducerPlan
from tidelog.wire.errors import ErrorCode

SILENT: dict[str, Any] = {"log_level": 0}
"""Brokers that cannot be reached are what a trial is about; the library would tell stderr of each."""


def common_settings(name: str, bootstrap_servers: str) -> dict[str, Any]:
    """Settings of librdkafka for a client that meets faults all the time: it looks again sooner."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "client.id": name,
        "allow.auto.create.topics": False,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "retry.backoff.ms": 50,
        "retry.backoff.max.ms": 500,
        "topic.metadata.refresh.fast.interval.ms": 50,
        # A broker that has just started may know no topic; then nothing but this makes clients ask again.
        "topic.metadata.refresh.interval.ms": 3_000,
        "socket.timeout.ms": 10_000,
        "socket.connection.setup.timeout.ms": 5_000,
        "log.connection.close": False,
    }


def producer_settings(plan: ProducerPlan) -> dict[str, Any]:
    settings: dict[str, Any] = {
        **common_settings(plan.name, plan.bootstrap_servers),
        "acks": plan.acks,
        "enable.idempotence": plan.idempotent,
        "linger.ms": 5,
        "message.timeout.ms": plan.delivery_timeout_ms,
        # The broker gives up before the client does, so that the client hears about it.
        "request.timeout.ms": min(5_000, plan.delivery_timeout_ms),
        "queue.buffering.max.messages": plan.in_flight_max + plan.partitions + 1000,
        "queue.buffering.max.kbytes": 1_048_576,
    }
    if plan.retries is not None and not plan.idempotent:
        settings["retries"] = plan.retries
    return settings | plan.client


def consumer_settings(plan: ConsumerPlan) -> dict[str, Any]:
    settings: dict[str, Any] = {
        **common_settings(plan.name, plan.bootstrap_servers),
        "group.id": f"trial-{plan.name}",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 50,
    }
    return settings | plan.client


def error_name(code: int) -> str:
    """Kafka's name of an error; librdkafka's own begin with an underscore."""
    try:
        return ErrorCode(code).name if code >= 0 else KafkaError(code).name()
    except ValueError:
        return KafkaError(code).name()
