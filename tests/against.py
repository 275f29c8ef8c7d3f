"""What the tests of real clients are pointed at: ``pytest --against SYSTEM``.

    tidelog        a cluster of three brokers, started for them (the default)
    kafka          Apache Kafka, started for them (needs Maven, once, to fetch it)
    HOST:PORT,…    a cluster that runs already: it gets topics with unlikely names, deleted in the end

tests/clients, tests/failover and tests/cli/test_topics.py ask for it. What they cannot do to a cluster that
another user started is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Against:
    kafka: bool = False
    servers: str = ""
    """Of a cluster that runs already."""


def against(word: str) -> Against:
    if word in ("tidelog", "kafka"):
        return Against(kafka=word == "kafka")
    for address in word.split(","):
        host, _, port = address.rpartition(":")
        if not (host and port.isdecimal()):
            raise pytest.UsageError(f"--against {word}: it is tidelog, kafka, or HOST:PORT,HOST:PORT")
    return Against(servers=word)
