"""What clients in Python are to be given so that they find a cluster, and find it again soon after a fault.

Only how to connect: what a client promises (acks, retries, offsets) is the application's business.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.errors import unknown

CONFLUENT: Final = "confluent-kafka"
KAFKA_PYTHON: Final = "kafka-python"
AIOKAFKA: Final = "aiokafka"
LIBRARIES: Final = (CONFLUENT, KAFKA_PYTHON, AIOKAFKA)

_RECONNECT_MS_MAX: Final = 500
"""By default clients wait for up to ten seconds, or thirty, before they try a broker again that was away."""


_REQUEST_MS: Final = 10_000
"""A broker that is paused or cut off does not answer. By default librdkafka waits for a minute."""


def client_config(library: str, servers: str) -> dict[str, Any]:
    """The settings of a client of this library. Raises `Refusal` for another one."""
    if library == CONFLUENT:
        return {
            "bootstrap.servers": servers,
            "reconnect.backoff.max.ms": _RECONNECT_MS_MAX,
            "socket.timeout.ms": _REQUEST_MS,
        }
    if library == KAFKA_PYTHON:
        return {"bootstrap_servers": servers.split(","), "reconnect_backoff_max_ms": _RECONNECT_MS_MAX}
    if library == AIOKAFKA:
        return {"bootstrap_servers": servers}
    raise unknown("client library", library, LIBRARIES)
