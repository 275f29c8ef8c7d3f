"""librdkafka as the clients of a trial use it: settings, and names of errors. What an error means for a send
is in `evidence.outcomes`."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError

from tidelog.wire.errors import ErrorCode


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


def error_name(code: int) -> str:
    """Kafka's name of an error; librdkafka's own begin with an underscore."""
    try:
        return ErrorCode(code).name if code >= 0 else KafkaError(code).name()
    except ValueError:
        return KafkaError(code).name()
