"""What a ledger costs an application: throughput of a producer with and without it, alternating in one run.

    python -m bench.ledger [--kafka] [--clients confluent,kafka-python,aiokafka] [--loads application] \\
        [--rounds 5] [--seconds 4]

Loads, each record with a callback that counts: *bare* hands over values that are there already, as fast as
it goes, which no application does; *application* makes each value as applications do: a small object, changed
and serialized as JSON of 0.9 kB. All take as much of the processor as they get, beside the brokers. CPU is
that of the client's process for each record. The budget of 5 % is for *application*.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
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
    "application": application,
    "bare 1 kB": lambda: bare(1000),
    "bare 100 B": lambda: bare(100),
}
MODES: dict[str, dict[str, Any] | None] = {
    "without": None,
    "ledger": {},
    "with header": {"header": True},
    "a tenth of the keys": {"sample": 0.1},
}
TOPIC = "bench-ledger"
_KEYS = [f"customer-{number}".encode() for number in range(1000)]


CLIENTS = ("confluent", "kafka-python", "aiokafka")


@dataclass
class Figures:
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


Turn = Callable[[str, dict[str, Any] | None, Iterator[bytes], float], int]
"""Send for so long, wait for all acknowledgements, and return how many records it were. `options` are those
of the ledger; None: without."""


def confluent(servers: str, options: dict[str, Any] | None, values: Iterator[bytes], seconds: float) -> int:
    acknowledged = 0

    def delivered(error: object, _: object) -> None:
        nonlocal acknowledged
        if error is not None:
            raise RuntimeError(f"a record was not delivered: {error}")
        acknowledged += 1

    producer = Producer({"bootstrap.servers": servers, **_SETTINGS})
    if options is not None:
        producer = ledger.wrap(producer, **options)
    sent, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for at in range(100):
            producer.produce(TOPIC, next(values), _KEYS[(sent + at) % 1000], on_delivery=delivered)
        sent += 100
        producer.poll(0)
        while len(producer) > _IN_FLIGHT_MAX:
            producer.poll(0.01)
    producer.flush()
    return _whole(sent, acknowledged)


def kafka_python(
    servers: str, options: dict[str, Any] | None, values: Iterator[bytes], seconds: float
) -> int:
    from kafka import KafkaProducer  # type: ignore[import-untyped]

    acknowledged = 0

    def delivered(_: object) -> None:
        nonlocal acknowledged
        acknowledged += 1

    producer = KafkaProducer(bootstrap_servers=servers.split(","), acks="all", linger_ms=5)
    if options is not None:
        producer = ledger.wrap(producer, **options)
    sent, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for at in range(100):
            producer.send(TOPIC, next(values), _KEYS[(sent + at) % 1000]).add_callback(delivered)
        sent += 100
    producer.flush()
    producer.close()
    return _whole(sent, acknowledged)


def aiokafka(servers: str, options: dict[str, Any] | None, values: Iterator[bytes], seconds: float) -> int:
    return asyncio.run(_aiokafka(servers, options, values, seconds))


async def _aiokafka(
    servers: str, options: dict[str, Any] | None, values: Iterator[bytes], seconds: float
) -> int:
    from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all", linger_ms=5)
    if options is not None:
        producer = ledger.wrap(producer, **options)
    await producer.start()
    sent, acknowledged, end = 0, 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        futures = [await producer.send(TOPIC, next(values), _KEYS[(sent + at) % 1000]) for at in range(1000)]
        sent += len(futures)
        acknowledged += len(await asyncio.gather(*futures))
    await producer.stop()
    return _whole(sent, acknowledged)


def _whole(sent: int, acknowledged: int) -> int:
    if acknowledged != sent:
        raise RuntimeError(f"{sent} were sent, {acknowledged} acknowledged")
    return sent


TURNS: dict[str, Turn] = dict(zip(CLIENTS, (confluent, kafka_python, aiokafka), strict=True))


def measure(
    servers: str, client: str, loads: Sequence[str], folder: Path, *, rounds: int, seconds: float
) -> dict[tuple[str, str], Figures]:
    found: dict[tuple[str, str], Figures] = {}
    for turn in range(rounds + 1):  # the first warms up
        for load in loads:
            for mode, options in list(MODES.items()) if turn % 2 else list(MODES.items())[::-1]:
                place = folder / f"{client}-{turn}-{load[:6]}-{mode}"
                given = None if options is None else {"folder": place, **options}
                began, cpu = time.perf_counter(), time.process_time()
                sent = TURNS[client](servers, given, LOADS[load](), seconds if turn else 1.0)
                wall, cpu = time.perf_counter() - began, time.process_time() - cpu
                shutil.rmtree(place, ignore_errors=True)
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
        within &= load != "application" or mode != "ledger" or ratio >= 1 - BUDGET
    return within


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kafka", action="store_true", help="also against Apache Kafka (needs Maven)")
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument("--loads", default=",".join(LOADS), help=f"of {', '.join(LOADS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    within = True
    for system in ("tidelog", "Apache Kafka") if options.kafka else ("tidelog",):
        with tempfile.TemporaryDirectory(prefix="bench-ledger-") as name:
            try:
                with running(system != "tidelog", Path(name)) as servers:
                    with Admin(servers) as admin:
                        admin.create(TOPIC, partitions=6, replicas=3)
                        admin.wait_for_leaders(TOPIC, 6)
                    for client in options.clients.split(","):
                        found = measure(
                            servers,
                            client,
                            options.loads.split(","),
                            Path(name),
                            rounds=options.rounds,
                            seconds=options.seconds,
                        )
                        within &= show(f"{system}, {client}", found)
            except Unavailable as error:
                print(error, file=sys.stderr)
                return 2
    print(f"\nbudget: {BUDGET:.0%} of the throughput of an application: {'kept' if within else 'not kept'}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
