"""The load of a trial as plain data: who sends what to where, who reads, and in how many processes.

Everything follows from a few numbers. Producers differ in turn in what they wait for, in whether brokers can
tell their repeats, in whether they use keys, and in the zone they live in. The client library is free to
choose partitions in general; here the producer chooses, so that the ledger knows the partition of every send
before it is made: key `k17` always goes to the same one, records without a key go round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tidelog.errors import Refusal

FINAL_READER: Final = "final"

# One process of generators manages a few times as much; brokers on the same machine do not.
_RATE_PER_PROCESS: Final = 25_000
_PROCESSES_MAX: Final = 4

Idempotence = Literal["on", "off", "mixed"]
Bootstrap = Callable[[str, str], str]
"""The servers that a client, by name and zone, is given to begin with."""


class WorkloadError(Refusal):
    """Such a load is impossible. The message is one line that says what to change."""


@dataclass(slots=True, frozen=True)
class ProducerPlan:
    name: str
    zone: str
    bootstrap_servers: str
    topic: str
    partitions: int
    acks: int
    idempotent: bool
    retries: int | None
    keys: int
    """How many different ones; 0: records have none."""
    value_bytes: int
    rate: float
    in_flight_max: int
    delivery_timeout_ms: int
    client: dict[str, str]


@dataclass(slots=True, frozen=True)
class ConsumerPlan:
    name: str
    zone: str
    bootstrap_servers: str
    topics: dict[str, int]
    """Partitions of each."""
    client: dict[str, str]
    starts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Where to begin, by topic and partition; elsewhere at 0."""


@dataclass(slots=True, frozen=True)
class Workload:
    rate: float = 1_000.0
    """Records a second, of all producers together."""
    producers: int = 6
    consumers: int = 2
    zones: tuple[str, ...] = ("az1", "az2", "az3")
    acks: tuple[int, ...] = (-1,)
    idempotence: Idempotence = "mixed"
    """Of producers with acks=all; others cannot be."""
    retries: int | None = None
    """None: until the delivery times out, as clients do by default."""
    keys: int = 100
    value_bytes: int = 128
    in_flight_max: int = 20_000
    """Sends without an outcome, of one producer; a bound on memory and on what is in doubt at once."""
    delivery_timeout_ms: int = 60_000
    """Much longer than a fail-over: a send that times out is in doubt, and makes librdkafka repeat others."""
    client: dict[str, str] = field(default_factory=dict)
    """Further settings of the client library."""

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise WorkloadError(f"a rate of {self.rate:g} records/s: give more than 0")
        if self.producers < 1:
            raise WorkloadError("no producers: give at least 1")
        if self.idempotence == "on" and any(acks != -1 for acks in self.acks):
            raise WorkloadError("an idempotent producer waits for all replicas: give acks=all alone")
        if self.value_bytes > 1_000_000:
            raise WorkloadError(f"values of {self.value_bytes} bytes: brokers take about 1,000,000")

    # ------------------------------------------------------------ who there is

    def producer_plans(self, topic: str, partitions: int, bootstrap: Bootstrap) -> list[ProducerPlan]:
        plans = []
        for number in range(self.producers):
            name, zone = f"p{number + 1}", self.zones[number % len(self.zones)]
            round_number, turn = divmod(number, len(self.acks))
            acks = self.acks[turn]
            chosen = self.idempotence == "on" or (self.idempotence == "mixed" and round_number % 2 == 0)
            plans.append(
                ProducerPlan(
                    name=name,
                    zone=zone,
                    bootstrap_servers=bootstrap(name, zone),
                    topic=topic,
                    partitions=partitions,
                    acks=acks,
                    idempotent=acks == -1 and chosen,
                    retries=self.retries,
                    keys=self.keys if (number // 2) % 2 else 0,
                    value_bytes=self.value_bytes,
                    rate=self.rate / self.producers,
                    in_flight_max=self.in_flight_max,
                    delivery_timeout_ms=self.delivery_timeout_ms,
                    client=self.client,
                )
            )
        return plans

    def consumer_plans(self, topics: dict[str, int], bootstrap: Bootstrap) -> list[ConsumerPlan]:
        names = [(f"c{number + 1}", self.zones[number % len(self.zones)]) for number in range(self.consumers)]
        return [ConsumerPlan(name, zone, bootstrap(name, zone), topics, self.client) for name, zone in names]

    def final_reader(
        self, topics: dict[str, int], bootstrap: Bootstrap, starts: dict[str, dict[str, int]] | None = None
    ) -> ConsumerPlan:
        zone = self.zones[0]
        servers = bootstrap(FINAL_READER, zone)
        return ConsumerPlan(FINAL_READER, zone, servers, topics, self.client, starts or {})

    # ------------------------------------------------------------ in how many processes

    def producer_processes(self) -> int:
        return min(math.ceil(self.rate / _RATE_PER_PROCESS), _PROCESSES_MAX, self.producers)

    def consumer_processes(self) -> int:
        read = self.rate * self.consumers
        return min(math.ceil(read / (2 * _RATE_PER_PROCESS)), _PROCESSES_MAX, self.consumers)


def dealt(plans: list[Any], processes: int) -> list[list[Any]]:
    """The plans of each process, dealt out in turn."""
    return [plans[number::processes] for number in range(processes)]
