"""Any scenario with producers that do not give up: acks=all, some retries, and idempotence or not.

Lost answers make copies. Most scenarios of the catalogue are about something else, so their producers
mostly send once; this asks of each what it would do to a producer that retries. A copy need not last: what an
isolated leader wrote four times is cut off when it comes back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tidelog.core.messages import ACKS_ALL
from tidelog.scenario.run import Run
from tidelog.scenario.scenario import Scenario

NETWORK_VERBS = frozenset({"cut", "isolate", "hold", "drop"})
"""Steps that keep messages from arriving, or from arriving in time."""
RETRIES = 3


def has_network_faults(scenario: Scenario) -> bool:
    return any(step.verb in NETWORK_VERBS for step in scenario.steps)


def with_retries(scenario: Scenario, *, idempotent: bool, retries: int = RETRIES) -> Scenario:
    """The same with other producers. What it expected of the end does not hold for them."""
    clients = [
        client
        if (producer := client.producer) is None
        else replace(
            client,
            producer=replace(
                producer, acks=ACKS_ALL, retries=max(retries, producer.retries), idempotent=idempotent
            ),
        )
        for client in scenario.clients
    ]
    return replace(scenario, clients=clients, expectations=[])


def most_copies(run: Run) -> int:
    """How often one value was in one replica's log, at most, at any time."""
    logs = (
        replica.records
        for played in run.played
        for partition in played.after.partitions
        for replica in partition.replicas
    )
    counts = (Counter(value for _, _, value in log if value is not None) for log in logs)
    return max((max(count.values()) for count in counts if count), default=0)
