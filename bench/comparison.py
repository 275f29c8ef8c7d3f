"""tidelog and Apache Kafka on the same machine, in alternating runs.

A run starts one system with fresh folders, measures, and stops it, so the two never share the machine. The
table shows the median of the runs and tidelog's figure divided by Kafka's: as it is, and for each core that
the brokers kept busy meanwhile, which depends less on what else the machine does. A JVM that has just started
has not compiled its code: `bench.broker` compares brokers that have run for a while.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import client_load
from bench.apache_kafka import ApacheKafka
from bench.processes import Unavailable
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


# Work of others on this many cores: with more of it, the figures are as much about them.
DISTURBED_CORES = 0.25

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
