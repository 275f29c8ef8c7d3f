"""How fast the lab searches: schedules per second on one core, and what a schedule is made of.

A trial is a cluster of three brokers with three replicas, two producers and a consumer with 20 operations in
all, up to six failures, recovery, and every invariant at every step. Times are CPU seconds, so that other
work on the machine disturbs them less, and the figure that travels between machines is the ratio: how many
plain Python method calls one simulated message costs, measured in the same run, alternating.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from random import Random
from time import process_time

from tidelog.lab.play import run
from tidelog.lab.search.schedule import Schedule, decide_randomly
from tidelog.lab.search.search import SearchOptions, search
from tidelog.lab.world.boot import booted
from tidelog.lab.world.world import World
from tidelog.scenario import catalogue

AIM = 2_000


class _Plain:
    """The yardstick: a method that does next to nothing."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0

    def add(self, number: int) -> int:
        self.total += number
        return self.total


def plain_calls_per_second(calls: int = 1_000_000) -> float:
    plain = _Plain()
    start = process_time()
    for number in range(calls):
        plain.add(number)
    return calls / (process_time() - start)


def schedules_per_second(options: SearchOptions) -> float:
    start = process_time()
    result = search(options, stop_at=None)
    return result.schedules / (process_time() - start)


def phases(options: SearchOptions, trials: int) -> dict[str, float]:
    """Mean microseconds of each phase of a trial, and mean numbers of what it does."""
    scenario = options.scenario()
    totals = {"boot": 0.0, "search": 0.0, "recover and judge": 0.0, "messages": 0.0, "choices": 0.0}
    booted(scenario.setup, lambda _: None)
    for seed in range(trials):
        clock = [process_time()]
        trial = Schedule(scenario, options.operations, options.faults)
        trial.begin()
        clock.append(process_time())
        decide_randomly(trial, Random(seed))
        clock.append(process_time())
        trial.finish()
        clock.append(process_time())
        for name, before, after in zip(totals, clock, clock[1:], strict=False):
            totals[name] += (after - before) * 1e6
        totals["messages"] += trial.world.network.messages_sent
        totals["choices"] += len(trial.steps)
    return {name: total / trials for name, total in totals.items()}


def time_of(what: Callable[[], object]) -> float:
    start = process_time()
    what()
    return process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedules", type=int, default=1_000, help="schedules in each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each kind; the median counts")
    arguments = parser.parse_args()
    base = SearchOptions(schedules=arguments.schedules)
    kinds = {
        "epoch, random": base,
        "epoch, pct": replace(base, strategy="pct"),
        "hw, random": replace(base, generation="hw"),
        "majority, random": replace(base, generation="majority"),
        "epoch, no faults": replace(base, faults=replace(base.faults, budget=0)),
    }
    rates: dict[str, list[float]] = {name: [] for name in kinds}
    yardstick: list[float] = []
    for _ in range(arguments.rounds):
        yardstick.append(plain_calls_per_second())
        for name, options in kinds.items():
            gc.collect()
            rates[name].append(schedules_per_second(options))
    print(f"Python {platform.python_version()}, {platform.machine()}, {arguments.rounds} rounds of "
          f"{arguments.schedules} schedules, CPU time of one core")  # fmt: skip
    calls = statistics.median(yardstick)
    print(f"yardstick: {calls / 1e6:.1f} million plain method calls per second\n")
    print(f"{'trials':<18} {'median/s':>9} {'least':>7} {'most':>7}   of the aim of {AIM}/s")
    for name, measured in rates.items():
        median = statistics.median(measured)
        print(f"{name:<18} {median:9.0f} {min(measured):7.0f} {max(measured):7.0f}   {median / AIM:.2f}")
    shape = phases(base, min(300, arguments.schedules))
    total = shape["boot"] + shape["search"] + shape["recover and judge"]
    print(f"\none trial: {total:.0f} µs = boot {shape['boot']:.0f} + search {shape['search']:.0f} + "
          f"recover and judge {shape['recover and judge']:.0f}")  # fmt: skip
    print(f"           {shape['messages']:.0f} messages, {shape['choices']:.0f} choices")
    per_message = total / shape["messages"]
    print(f"one message: {per_message:.1f} µs = {per_message * calls / 1e6:.0f} plain method calls, all in")
    setup = base.scenario().setup
    cold = time_of(lambda: [World(setup, lambda _: None) for _ in range(50)]) / 50
    print(f"booting a cluster from nothing: {cold * 1e6:.0f} µs")
    scenarios = [catalogue.load(name) for name in catalogue.names()]
    played = time_of(lambda: [run(scenario.under(g)) for scenario in scenarios for g in ("hw", "epoch")])
    print(f"the catalogue: {len(scenarios)} scenarios under hw and epoch in {played:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
