"""tidelog and Apache Kafka on the same machine, driven by the same client, in alternating runs.

A run starts one system with fresh folders, waits for its first acknowledged record, warms it up, measures,
and stops it, so the two never share the machine. Three brokers; topics have three replicas and need two in
sync; producers use acks=all, linger 5 ms and no compression unless a row says otherwise. The table shows the
median of the runs and tidelog's figure divided by Kafka's: as it is, and for each core that the brokers kept
busy meanwhile, which depends less on what else the machine does. Where the client needs a whole core or more,
the client is what is measured: see its column.

    python -m bench.broker [--quick] [--runs N] [--only produce] [--system tidelog] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from bench import client_load
from bench.apache_kafka import ApacheKafka
from bench.processes import Unavailable, resident_bytes
from bench.tidelog_up import TidelogUp
from confluent_kafka import KafkaException

System = TidelogUp | ApacheKafka
Systems = Mapping[str, Callable[[Path], System]]
SYSTEMS: Systems = {"tidelog": TidelogUp, "kafka": ApacheKafka}
BROKERS = 3


@dataclass(frozen=True)
class Figure:
    """One measured number. Cores are what client and brokers used meanwhile, where that was measured."""

    name: str
    unit: str
    value: float
    client_cores: float | None = None
    broker_cores: float | None = None
    other_cores: float | None = None


@dataclass(frozen=True)
class Plan:
    """What to measure, and for how long."""

    only: tuple[str, ...]
    warm_up_seconds: float
    produce_seconds: float
    latency_seconds: float
    latency_warm_ups_max: int

    def wants(self, name: str) -> bool:
        return not self.only or any(name.startswith(prefix) for prefix in self.only)


QUICK = Plan((), warm_up_seconds=2, produce_seconds=2, latency_seconds=3, latency_warm_ups_max=4)
FULL = Plan((), warm_up_seconds=6, produce_seconds=6, latency_seconds=8, latency_warm_ups_max=20)

# A median wait beyond this means that the system does not keep up yet: records queue in the client.
KEEPS_UP_SECONDS = 0.02

# Work of others on this many cores: with more of it, the figures are as much about them.
DISTURBED_CORES = 0.25

# (record size, its name, partitions, idempotent)
PRODUCE_ROWS = (
    (1_000, "1 KB", 1, False),
    (1_000, "1 KB", 6, False),
    (100, "100 B", 1, False),
    (100, "100 B", 6, False),
    (100, "100 B", 6, True),
)


# ---------------------------------------------------------------- one run


def measure(system: System, plan: Plan) -> Iterator[Figure]:
    """Start a system, take every wanted figure, stop it."""

    def start() -> str:
        system.start()
        return system.bootstrap_servers

    try:
        yield Figure("start to first ack", "s", client_load.seconds_to_first_acknowledgement(start, BROKERS))
        if any(plan.wants(kind) for kind in ("produce", "consume", "latency", "memory")):
            warm_up(system, plan)
            yield from throughput(system, plan)
            yield from latency(system, plan)
            # All processes, whatever they do, because a user needs all of them.
            resident = sum(map(resident_bytes, system.pids)) / BROKERS
            yield Figure("memory per broker after the load", "MB", resident / 1e6)
    finally:
        system.stop()


def warm_up(system: System, plan: Plan) -> None:
    """Let the JVM compile what it is going to need, and give tidelog the same."""
    client_load.create_topic(system.bootstrap_servers, "warm-up", 6)
    for record_bytes in (1_000, 100):
        client_load.produce(
            system.bootstrap_servers,
            "warm-up",
            partitions=6,
            record_bytes=record_bytes,
            seconds=plan.warm_up_seconds,
        )
    client_load.consume(system.bootstrap_servers, "warm-up", partitions=6, record_bytes=100)


def throughput(system: System, plan: Plan) -> Iterator[Figure]:
    servers, pids = system.bootstrap_servers, system.pids
    for record_bytes, size, partitions, idempotent in PRODUCE_ROWS:
        what = f"{size}, {partitions} partition{'s' * (partitions > 1)}{', idempotent' * idempotent}"
        then_read = partitions > 1 and not idempotent and plan.wants(f"consume {what}")
        if not (plan.wants(f"produce {what}") or then_read):
            continue
        topic = "load-" + what.replace(", ", "-").replace(" ", "")
        client_load.create_topic(servers, topic, partitions)
        load = client_load.produce(
            servers,
            topic,
            partitions=partitions,
            record_bytes=record_bytes,
            seconds=plan.produce_seconds,
            broker_pids=pids,
            idempotent=idempotent,
        )
        yield _figure(f"produce {what}", load, record_bytes)
        if then_read:
            load = client_load.consume(
                servers, topic, partitions=partitions, record_bytes=record_bytes, broker_pids=pids
            )
            yield _figure(f"consume {what}", load, record_bytes)
        client_load.delete_topic(servers, topic)


def _figure(name: str, load: client_load.Load, record_bytes: int) -> Figure:
    cores = (load.client_cores, load.broker_cores, load.other_cores)
    if record_bytes >= 1_000:
        return Figure(name, "MB/s", load.megabytes_per_second, *cores)
    return Figure(name, "k records/s", load.records_per_second / 1e3, *cores)


def latency(system: System, plan: Plan) -> Iterator[Figure]:
    for partitions in (1, 6):
        what = f"latency {partitions} partition{'s' * (partitions > 1)}, 1 KB, 1000/s"
        if not plan.wants(what):
            continue
        topic = f"latency-{partitions}"
        client_load.create_topic(system.bootstrap_servers, topic, partitions)
        steady = partial(
            client_load.acknowledgement_latencies,
            system.bootstrap_servers,
            topic,
            partitions=partitions,
            record_bytes=1_000,
            per_second=1_000,
        )
        # Single records are another path through the broker than full batches: it is warmed up on its own.
        for _ in range(plan.latency_warm_ups_max):
            if client_load.percentile(steady(seconds=1.5), 50) < KEEPS_UP_SECONDS:
                break
        waits = steady(seconds=plan.latency_seconds)
        for percent in (50, 99):
            yield Figure(f"{what}, p{percent}", "ms", client_load.percentile(waits, percent) * 1e3)


# ---------------------------------------------------------------- all runs


Measure = Callable[[System], Iterator[Figure]]


def alternating_runs(
    names: list[str], measure: Measure, runs: int, directory: Path | None, systems: Systems
) -> dict[str, list[Figure]]:
    """All figures of all runs, by system."""
    figures: dict[str, list[Figure]] = {name: [] for name in names}
    for run in range(runs):
        for name in names:
            os.sync()  # so that no system pays for what another left to write
            with tempfile.TemporaryDirectory(prefix=f"bench-{name}-", dir=directory) as scratch:
                for figure in measure(systems[name](Path(scratch))):
                    note = f"run {run + 1} of {runs}  {name:<8} {figure.name:<52}"
                    print(f"{note} {figure.value:10.2f} {figure.unit}", file=sys.stderr, flush=True)
                    figures[name].append(figure)
    return figures


def medians(figures: list[Figure]) -> dict[str, Figure]:
    """One figure for each name, in the order in which they were first measured."""
    by_name: dict[str, list[Figure]] = {}
    for figure in figures:
        by_name.setdefault(figure.name, []).append(figure)
    return {
        name: Figure(
            name,
            same[0].unit,
            statistics.median(each.value for each in same),
            _median([each.client_cores for each in same]),
            _median([each.broker_cores for each in same]),
            _median([each.other_cores for each in same]),
        )
        for name, same in by_name.items()
    }


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def table(results: dict[str, dict[str, Figure]]) -> Iterator[str]:
    tidelog, kafka = results.get("tidelog", {}), results.get("kafka", {})
    columns = f"{'tidelog':>9} {'Kafka':>9} {'':<12} {'ratio':>6} {'per core':>8}"
    yield f"{'':<50} {columns}   client/broker cores: tidelog, Kafka"
    for name in dict.fromkeys([*tidelog, *kafka]):
        ours, theirs = tidelog.get(name), kafka.get(name)
        unit = next(each.unit for each in (ours, theirs) if each)
        ratio = f"{ours.value / theirs.value:6.2f}" if ours and theirs else f"{'':6}"
        figures = f"{_number(ours)} {_number(theirs)} {unit:<12} {ratio} {_per_core(ours, theirs)}"
        yield f"{name:<50} {figures}   {_cores(ours)}  {_cores(theirs)}".rstrip()


def disturbance(results: dict[str, dict[str, Figure]]) -> str:
    """How much of the machine other processes used while each system was measured."""
    shares = {
        name: _median([figure.other_cores for figure in figures.values()])
        for name, figures in results.items()
    }
    told = ", ".join(f"{share:.2f} ({name})" for name, share in shares.items() if share is not None)
    crowded = any(share and share > DISTURBED_CORES for share in shares.values())
    advice = ": too many for these figures to mean much" if crowded else ""
    return f"cores used by others meanwhile: {told}{advice}" if told else ""


def _number(figure: Figure | None) -> str:
    return f"{figure.value:9.2f}" if figure else f"{'-':>9}"


def _per_core(ours: Figure | None, theirs: Figure | None) -> str:
    """The ratio that is left when each figure is divided by the cores that the brokers used for it."""
    if not (ours and theirs and ours.broker_cores and theirs.broker_cores):
        return f"{'':8}"
    return f"{(ours.value / ours.broker_cores) / (theirs.value / theirs.broker_cores):8.2f}"


def _cores(figure: Figure | None) -> str:
    if figure is None or figure.client_cores is None or figure.broker_cores is None:
        return f"{'':11}"
    return f"{figure.client_cores:.2f} / {figure.broker_cores:.2f}"


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short measurements, one run")
    parser.add_argument("--runs", type=int, help="runs of each system; the median counts (default 3)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="ROW", help="rows that start so; repeatable"
    )
    parser.add_argument("--system", choices=SYSTEMS, help="measure only this one")
    parser.add_argument("--data-dir", type=Path, help="where temporary folders go")
    parser.add_argument("--json", action="store_true", help="print every figure of every run as JSON")
    arguments = parser.parse_args()
    base = QUICK if arguments.quick else FULL
    plan = replace(base, only=tuple(arguments.only))
    names = [arguments.system] if arguments.system else list(SYSTEMS)
    runs = arguments.runs or (1 if arguments.quick else 3)
    return run_and_tell(names, partial(measure, plan=plan), runs, arguments.data_dir, as_json=arguments.json)


def run_and_tell(
    names: list[str],
    measure: Measure,
    runs: int,
    directory: Path | None = None,
    *,
    systems: Systems | None = None,
    as_json: bool,
) -> int:
    """Measure the systems, print the table, and say how it went: the exit code."""
    try:
        figures = alternating_runs(names, measure, runs, directory, systems or SYSTEMS)
    except (Unavailable, client_load.Miscounted, KafkaException, TimeoutError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if as_json:
        print(json.dumps({name: [vars(each) for each in taken] for name, taken in figures.items()}, indent=1))
        return 0
    print(
        f"\nPython {platform.python_version()}, {os.cpu_count()} cores, median of {runs} alternating runs\n"
    )
    results = {name: medians(taken) for name, taken in figures.items()}
    print("\n".join((*table(results), "", disturbance(results))))
    return 0


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
