"""tidelog and Apache Kafka on the same machine, both warm: what brokers do that have run for a while.

Both stay up, three brokers each, and take turns: only one has load at a time. First both are warmed up with
every kind of load but Java's, for a minute each, and up to half a minute longer while one still gets
faster: a JVM compiles its code in that time. Then each row is measured in rounds, tidelog and Kafka
alternately. Topics have three replicas and need two in sync; producers use acks=all, linger 5 ms and no
compression, consumers `fetch.queue.backoff.ms=5`.

The table has medians with the smallest and the largest figure, the median ratio of the rounds, and the CPU
time of all brokers for each MB of records. Where the client needs a core or more, it is what is measured.

    python -m bench.broker [--quick] [--rounds N] [--only produce] [--system tidelog] [--json]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NoReturn

from bench import client_load, java_load
from bench.apache_kafka import ApacheKafka
from bench.client_load import Load
from bench.comparison import BROKERS, DISTURBED_CORES, System
from bench.processes import Unavailable, resident_bytes
from bench.tidelog_up import TidelogUp
from confluent_kafka import KafkaException

SYSTEMS: Mapping[str, Callable[[Path], System]] = {
    "tidelog": TidelogUp,
    # By default it keeps the files of a deleted topic for a minute, and they would be written to disk.
    "kafka": lambda path: ApacheKafka(path, settings={"log.segment.delete.delay.ms": "1000"}),
}
WARM_UP_SECONDS_MAX = 90.0
SAME = 1.05
"""A pass that is better than all before by less than this is no improvement."""


@dataclass(frozen=True)
class Plan:
    rounds: int
    warm_up_seconds: float
    seconds: float
    """Of load, in each round of each row."""
    java_records: int
    only: tuple[str, ...] = ()

    def wants(self, name: str) -> bool:
        return not self.only or any(name.startswith(prefix) for prefix in self.only)


FULL = Plan(rounds=5, warm_up_seconds=60, seconds=3, java_records=100_000)
QUICK = Plan(rounds=3, warm_up_seconds=10, seconds=1.5, java_records=50_000)


@dataclass
class Row:
    """The figures of one row, round by round, and the brokers' CPU in ms for each MB."""

    name: str
    unit: str
    values: dict[str, list[float]] = field(default_factory=dict)
    costs: dict[str, list[float]] = field(default_factory=dict)
    others: list[float] = field(default_factory=list)

    def add(self, system: str, value: float, load: Load | None = None) -> None:
        self.values.setdefault(system, []).append(value)
        if load is not None:
            cost = load.broker_cores * load.seconds * 1e3 / (load.bytes / 1e6)
            self.costs.setdefault(system, []).append(cost)
            self.others.append(load.other_cores)


class Comparison:
    """Both systems while they run, and what was measured."""

    def __init__(self, systems: Mapping[str, System], plan: Plan) -> None:
        self._systems = systems
        self._plan = plan
        self._topics = 0
        self.rows: dict[str, Row] = {}
        self.warmed: dict[str, float] = {}
        """Seconds of load before the measurements, by system."""

    def run(self) -> None:
        self.start()
        self.warm_up()
        self.measure()

    def start(self) -> None:
        for name, system in self._systems.items():

            def started(system: System = system) -> str:
                system.start()
                return system.bootstrap_servers

            self._row("start to first ack", "s").add(
                name, client_load.seconds_to_first_acknowledgement(started, BROKERS)
            )

    def _row(self, name: str, unit: str) -> Row:
        return self.rows.setdefault(name, Row(name, unit))

    def _topic(self, servers: str, partitions: int) -> str:
        self._topics += 1
        topic = f"load-{self._topics}"
        client_load.create_topic(servers, topic, partitions)
        return topic

    # ------------------------------------------------------------ warm-up

    def warm_up(self) -> None:
        """Load them in turns until none improves."""
        best = dict.fromkeys(self._systems, (0.0, math.inf))
        cold = dict(self._systems)
        while cold:
            for name, system in list(cold.items()):
                began = time.perf_counter()
                rate, wait = self._warm_up_once(system)
                spent = self.warmed[name] = self.warmed.get(name, 0.0) + time.perf_counter() - began
                figures = f"{rate:8.1f} k records/s, a record in {wait * 1e3:.1f} ms"
                print(f"warm-up  {name:<8} {spent:5.0f} s  {figures}", file=sys.stderr, flush=True)
                most, least = best[name]
                best[name] = max(most, rate), min(least, wait)
                improved = rate > most * SAME or wait < least / SAME
                if spent >= WARM_UP_SECONDS_MAX or (spent >= self._plan.warm_up_seconds and not improved):
                    del cold[name]

    def _warm_up_once(self, system: System) -> tuple[float, float]:
        """Every kind of load. Returns how many thousand small records were sent each second, and the
        median seconds until a single one was acknowledged."""
        servers = system.bootstrap_servers
        topic = self._topic(servers, 6)
        send = partial(client_load.produce, servers, topic, partitions=6, seconds=1.5)
        send(record_bytes=1_000)
        load = send(record_bytes=100)
        client_load.consume(servers, topic, partitions=6, record_bytes=100)
        waits = client_load.acknowledgement_latencies(
            servers, topic, partitions=1, record_bytes=1_000, per_second=1_000, seconds=1.5
        )
        client_load.delete_topic(servers, topic)
        return load.records_per_second / 1e3, client_load.percentile(waits, 50)

    # ------------------------------------------------------------ rows

    def measure(self) -> None:
        for partitions in (1, 6):
            for record_bytes, size in ((1_000, "1 KB"), (100, "100 B")):
                what = f"{size}, {partitions} partition{'s' * (partitions > 1)}"
                self._alternate(partial(self._produce_and_consume, what, record_bytes, partitions), what)
        self._alternate(self._java, "Java, 1 KB, 6 partitions")
        for partitions in (1, 6):
            what = f"1,000 sends/s of 1 KB, {partitions} partition{'s' * (partitions > 1)}"
            self._alternate(partial(self._latency, what, partitions), what)
        for name, system in self._systems.items():
            # All processes, whatever they do, because a user needs all of them.
            resident = sum(map(resident_bytes, system.pids)) / BROKERS
            self._row("memory per broker after the load", "MB").add(name, resident / 1e6)

    def _alternate(self, load: Callable[[str, System], None], what: str) -> None:
        if not any(self._plan.wants(f"{verb} {what}") for verb in ("produce", "consume", "latency")):
            return
        for number in range(self._plan.rounds):
            for name, system in self._systems.items():
                load(name, system)
            print(f"round {number + 1} of {self._plan.rounds}  {what}", file=sys.stderr, flush=True)

    def _note(self, name: str, what: str, load: Load, record_bytes: int) -> None:
        if record_bytes >= 1_000:
            self._row(what, "MB/s").add(name, load.megabytes_per_second, load)
        else:
            self._row(what, "k records/s").add(name, load.records_per_second / 1e3, load)

    def _produce_and_consume(
        self, what: str, record_bytes: int, partitions: int, name: str, system: System
    ) -> None:
        servers, pids = system.bootstrap_servers, system.pids
        topic = self._topic(servers, partitions)
        load = client_load.produce(
            servers,
            topic,
            partitions=partitions,
            record_bytes=record_bytes,
            seconds=self._plan.seconds,
            broker_pids=pids,
        )
        self._note(name, f"produce {what}", load, record_bytes)
        if partitions > 1 and self._plan.wants(f"consume {what}"):
            load = client_load.consume(
                servers, topic, partitions=partitions, record_bytes=record_bytes, broker_pids=pids
            )
            self._note(name, f"consume {what}", load, record_bytes)
        client_load.delete_topic(servers, topic)

    def _java(self, name: str, system: System) -> None:
        servers, pids = system.bootstrap_servers, system.pids
        topic, records = self._topic(servers, 6), self._plan.java_records
        load = java_load.produce(servers, topic, records=records, record_bytes=1_000, broker_pids=pids)
        self._note(name, "produce Java, batches of 16 KB, 1 KB, 6 partitions", load, 1_000)
        load = java_load.consume(servers, topic, records=2 * records, record_bytes=1_000, broker_pids=pids)
        self._note(name, "consume Java, 1 KB, 6 partitions", load, 1_000)
        client_load.delete_topic(servers, topic)

    def _latency(self, what: str, partitions: int, name: str, system: System) -> None:
        servers = system.bootstrap_servers
        topic = self._topic(servers, partitions)
        watch = client_load.Stopwatch(system.pids)
        seconds = self._plan.seconds + 0.5
        waits = client_load.acknowledgement_latencies(
            servers, topic, partitions=partitions, record_bytes=1_000, per_second=1_000, seconds=seconds
        )
        load = watch.load(int(seconds * 1_000), int(seconds * 1e6))
        for percent in (50, 99):
            wait = client_load.percentile(waits, percent) * 1e3
            self._row(f"latency {what}, p{percent}", "ms").add(name, wait, load)
        client_load.delete_topic(servers, topic)


# ---------------------------------------------------------------- the table


def table(rows: Mapping[str, Row]) -> Iterator[str]:
    both = f"{'tidelog':>8} {'':<15} {'Kafka':>8} {'':<15} {'':<12} {'ratio':>6}"
    yield f"{'':<50} {both}   CPU ms a MB: tidelog, Kafka, ratio"
    for row in rows.values():
        figures = f"{_spread(row.values.get('tidelog'))} {_spread(row.values.get('kafka'))} {row.unit:<12}"
        costs = [_median(row.costs.get(name)) for name in ("tidelog", "kafka")]
        shown = " ".join(f"{'':7}" if cost is None else f"{cost:7.2f}" for cost in costs)
        per_mb = f"{shown} {_ratio(row.costs)}" if any(cost is not None for cost in costs) else ""
        yield f"{row.name:<50} {figures} {_ratio(row.values)}   {per_mb}".rstrip()


def _median(values: list[float] | None) -> float | None:
    return statistics.median(values) if values else None


def _spread(values: list[float] | None) -> str:
    if not values:
        return f"{'-':>8} {'':<15}"
    between = f"({_short(min(values))}-{_short(max(values))})" if len(values) > 1 else ""
    return f"{_short(statistics.median(values)):>8} {between:<15}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _ratio(values: Mapping[str, list[float]]) -> str:
    """The median of the ratios of the rounds, which alternate."""
    ours, theirs = values.get("tidelog"), values.get("kafka")
    if not ours or not theirs:
        return f"{'':6}"
    return f"{statistics.median(own / other for own, other in zip(ours, theirs, strict=False)):6.2f}"


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="to try it: too short to warm a JVM up")
    parser.add_argument("--rounds", type=int, help=f"rounds of each row (default {FULL.rounds})")
    parser.add_argument(
        "--only", action="append", default=[], metavar="ROW", help="rows that start so; repeatable"
    )
    parser.add_argument("--system", choices=SYSTEMS, help="measure only this one")
    parser.add_argument("--data-dir", type=Path, help="where temporary folders go")
    parser.add_argument("--json", action="store_true", help="print every figure of every round as JSON")
    arguments = parser.parse_args()
    base = QUICK if arguments.quick else FULL
    plan = Plan(
        arguments.rounds or base.rounds,
        base.warm_up_seconds,
        base.seconds,
        base.java_records,
        tuple(arguments.only),
    )
    names = [arguments.system] if arguments.system else list(SYSTEMS)
    interrupted = False
    try:
        with tempfile.TemporaryDirectory(prefix="bench-broker-", dir=arguments.data_dir) as scratch:
            systems = {name: SYSTEMS[name](Path(scratch, name)) for name in names}
            comparison = Comparison(systems, plan)
            try:
                comparison.run()
            except KeyboardInterrupt:
                interrupted = True
            finally:
                for system in systems.values():
                    system.stop()
    except (Unavailable, client_load.Miscounted, KafkaException, TimeoutError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps([vars(row) for row in comparison.rows.values()], indent=1))
    else:
        show(comparison, plan)
    return 130 if interrupted else 0


def show(comparison: Comparison, plan: Plan) -> None:
    warmed = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in comparison.warmed.items())
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    print(f"\n{machine}, {plan.rounds} rounds, warmed up: {warmed}\n")
    print("\n".join(table(comparison.rows)))
    others = [share for row in comparison.rows.values() for share in row.others]
    if others:
        crowded = statistics.median(others) > DISTURBED_CORES
        advice = ": too many for these figures to mean much" if crowded else ""
        print(f"\ncores used by others meanwhile: {statistics.median(others):.2f}{advice}")


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
