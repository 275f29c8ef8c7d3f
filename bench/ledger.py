"""What a ledger costs an application: throughput of a producer with and without it, alternating in one run.

    python -m bench.ledger [--kafka] [--rounds 5] [--seconds 4]

Loads of confluent-kafka, each record with a delivery callback that counts: *bare* hands over values that are
there already, as fast as it goes, which no application does; *application* makes each value as applications
do: a small object, changed and serialized as JSON. All take as much of the processor as they get, beside
the brokers. CPU is that of the client's process for each record. The budget of 5 % is for *application*.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from bench.apache_kafka import ApacheKafka
from bench.processes import Unavailable
from confluent_kafka import Producer

from tidelog import Cluster, ledger
from tidelog.kafka_client.admin import Admin

BUDGET = 0.05
_IN_FLIGHT_MAX = 50_000
_SETTINGS = {
    "acks": "all",
    "linger.ms": 5,
    "queue.buffering.max.messages": 2 * _IN_FLIGHT_MAX,
    "queue.buffering.max.kbytes": 1 << 20,
    "log_level": 0,
}
_ORDER = {
    "order": 0,
    "customer": {"id": 4711, "name": "A. Customer", "address": ["Some Street 5", "12345", "Some City"]},
    "lines": [
        {"article": f"A-{n:05}", "count": n, "price": 12.5 * n, "tags": ["new", "red"]} for n in range(8)
    ],
    "paid": False,
}


def bare(size: int) -> Iterator[bytes]:
    value = b"x" * size
    while True:
        yield value


def application() -> Iterator[bytes]:
    for number in count():
        _ORDER["order"] = number
        yield json.dumps(_ORDER).encode()


LOADS: dict[str, Callable[[], Iterator[bytes]]] = {
    "application, JSON of 0.9 kB": application,
    "bare, 1 kB": lambda: bare(1000),
    "bare, 100 B": lambda: bare(100),
}
MODES: dict[str, dict[str, Any] | None] = {
    "without": None,
    "ledger": {},
    "with header": {"header": True},
    "a tenth of the keys": {"sample": 0.1},
}
_KEYS = [f"customer-{number}".encode() for number in range(1000)]


@dataclass
class Figures:
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


def produce(
    producer: Producer, topic: str, values: Iterator[bytes], seconds: float
) -> tuple[int, float, float]:
    """Records, and the seconds of the clock and of the CPU that they took, the last acknowledgement
    included."""
    acknowledged = 0

    def delivered(error: object, _: object) -> None:
        nonlocal acknowledged
        if error is not None:
            raise RuntimeError(f"a record was not delivered: {error}")
        acknowledged += 1

    began, cpu = time.perf_counter(), time.process_time()
    sent = 0
    while time.perf_counter() - began < seconds:
        for at in range(100):
            producer.produce(topic, next(values), _KEYS[(sent + at) % 1000], on_delivery=delivered)
        sent += 100
        producer.poll(0)
        while len(producer) > _IN_FLIGHT_MAX:
            producer.poll(0.01)
    producer.flush()
    if acknowledged != sent:
        raise RuntimeError(f"{sent} were sent, {acknowledged} acknowledged")
    return sent, time.perf_counter() - began, time.process_time() - cpu


def measure(servers: str, rounds: int, seconds: float, folder: Path) -> dict[tuple[str, str], Figures]:
    found: dict[tuple[str, str], Figures] = {}
    with Admin(servers) as admin:
        admin.create("bench-ledger", partitions=6, replicas=3)
        admin.wait_for_leaders("bench-ledger", 6)
    for turn in range(rounds + 1):  # the first warms up
        for load, values in LOADS.items():
            for mode, options in list(MODES.items()) if turn % 2 else list(MODES.items())[::-1]:
                producer = Producer({"bootstrap.servers": servers, **_SETTINGS})
                if options is not None:
                    producer = ledger.wrap(producer, folder=folder / f"{turn}-{load[:6]}-{mode}", **options)
                sent, wall, cpu = produce(producer, "bench-ledger", values(), seconds if turn else 1.0)
                if turn:
                    figures = found.setdefault((load, mode), Figures())
                    figures.rates.append(sent / wall)
                    figures.cpu_us.append(cpu / sent * 1e6)
    return found


@contextmanager
def running(kafka: bool, folder: Path) -> Iterator[str]:
    if kafka:
        with ApacheKafka(folder / "kafka", 3) as cluster:
            yield cluster.bootstrap_servers
    else:
        with Cluster(brokers=3, data_dir=folder / "tidelog") as cluster:
            yield cluster.bootstrap_servers


def show(system: str, found: dict[tuple[str, str], Figures]) -> bool:
    print(f"\n{system:28} {'records/s':>10} {'of without':>10} {'least':>6} {'most':>6} {'CPU µs':>7}")
    within = True
    for (load, mode), figures in found.items():
        base = found[load, "without"]
        ratios = sorted(a / b for a, b in zip(figures.rates, base.rates, strict=True))
        ratio = statistics.median(ratios)
        name = load if mode == "without" else f"  {mode}"
        print(
            f"{name:28} {statistics.median(figures.rates):10,.0f} {ratio:10.3f} {ratios[0]:6.2f} "
            f"{ratios[-1]:6.2f} {statistics.median(figures.cpu_us):7.1f}"
        )
        within &= not load.startswith("application") or ratio >= 1 - BUDGET
    return within


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kafka", action="store_true", help="also against Apache Kafka (needs Maven)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    within = True
    for system in ("tidelog", "Apache Kafka") if options.kafka else ("tidelog",):
        with tempfile.TemporaryDirectory(prefix="bench-ledger-") as name:
            try:
                with running(system != "tidelog", Path(name)) as servers:
                    found = measure(servers, options.rounds, options.seconds, Path(name))
            except Unavailable as error:
                print(error, file=sys.stderr)
                return 2
        within &= show(system, found)
    print(f"\nbudget: {BUDGET:.0%} of the throughput of an application: {'kept' if within else 'not kept'}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
