"""A cluster in a test suite: how long its start, topics, faults and repairs take, beside Apache Kafka.

    python -m bench.testing [--without-kafka] [--rounds 5]

The budgets are those of a test suite that a person waits for. Apache Kafka is started from its jars in the
same run, with the same number of brokers and its own time-outs; it has no faults of its own, so its processes
are killed and started again from outside.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.apache_kafka import ApacheKafka
from bench.processes import Unavailable, eventually

from tidelog import Cluster
from tidelog.kafka_client.admin import Admin
from tidelog.kafka_client.blocking import ClientError

BUDGETS = {
    "cluster ready": 1.0,
    "topic": 0.05,
    "fault (kill)": 0.1,
    "heal, all in sync": 2.0,
    "100 tests with a topic each": 10.0,
}
_TESTS = 100
_WITH_KAFKA = f"""
import pytest
@pytest.mark.parametrize("number", range({_TESTS}))
def test_it(number, kafka_topic):
    pass
"""
_EMPTY = _WITH_KAFKA.replace(", kafka_topic", "")


class Timed:
    """Seconds of what was done, by its name."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds.setdefault(name, []).append(time.perf_counter() - began)

    def shown(self, name: str) -> str:
        found = self.seconds.get(name)
        return f"{statistics.median(found):8.3f}" if found else f"{'':8}"


def measure_tidelog(rounds: int) -> Timed:
    timed = Timed()
    for _ in range(rounds):
        cluster = Cluster(brokers=3)
        with timed.of("cluster ready"):
            cluster.start()
        for number in range(20):
            with timed.of("topic"):
                cluster.topic(f"topic-{number}")
        for number in (1, 2, 3):
            with timed.of("fault (kill)"):
                fault = cluster.kill(number)
            with timed.of("heal, all in sync"):
                fault.heal()
        with timed.of("stop"):
            cluster.stop()
    return timed


def measure_kafka(rounds: int) -> Timed:
    timed = Timed()
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            kafka = ApacheKafka(Path(folder) / "data")
            with timed.of("cluster ready"):
                kafka.start()
            try:
                for number in range(20):
                    with timed.of("topic"), Admin(kafka.bootstrap_servers) as admin:
                        admin.create(f"topic-{number}", partitions=1, replicas=3)
                        admin.wait_for_leaders(f"topic-{number}")
                broker = min(kafka.nodes)
                with timed.of("fault (kill)"):
                    kafka.kill_broker(broker)
                with timed.of("heal, all in sync"):
                    kafka.start_broker(broker)
                    eventually(partial(_in_sync, kafka.bootstrap_servers), "all replicas are in sync")
            finally:
                with timed.of("stop"):
                    kafka.stop()
    return timed


def _in_sync(servers: str) -> bool:
    """Whether every broker says so, and knows all of them."""
    try:
        return all(_says_so(server, len(servers.split(","))) for server in servers.split(","))
    except ClientError:
        return False


def _says_so(server: str, brokers: int) -> bool:
    with Admin(server) as admin:
        topics = admin.topics()
        known = len(admin.metadata([]).brokers)
    return known == brokers and all(part.state == "ok" for topic in topics for part in topic.partitions)


def measure_suites(rounds: int) -> list[float]:
    """How much longer tests take that have a topic each than tests that do nothing: the cluster included."""
    with tempfile.TemporaryDirectory() as folder:
        return [_suite(folder, _WITH_KAFKA) - _suite(folder, _EMPTY) for _ in range(rounds)]


def _suite(folder: str, source: str) -> float:
    Path(folder, "test_it.py").write_text(source)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_plugin(), "test_it.py"]
    began = time.perf_counter()
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return time.perf_counter() - began


def _plugin() -> list[str]:
    """Named, if this installation is older than its entry point."""
    from importlib.metadata import entry_points

    return [] if entry_points(group="pytest11", name="tidelog") else ["-p", "tidelog.testing.plugin"]


def tried(measure: Callable[[int], Timed], rounds: int) -> Timed:
    try:
        return measure(rounds)
    except Unavailable as error:
        print(f"without Apache Kafka: {error}")
        return Timed()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--without-kafka", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before; medians in seconds")
    ours = measure_tidelog(chosen.rounds)
    ours.seconds["100 tests with a topic each"] = measure_suites(chosen.rounds)
    print(f"load {os.getloadavg()[0]:.1f} after tidelog")
    theirs = Timed() if chosen.without_kafka else tried(measure_kafka, min(chosen.rounds, 2))
    print(f"{'':28} {'tidelog':>8} {'budget':>8} {'Apache Kafka':>12}")
    for name in (*BUDGETS, "stop"):
        budget = f"{BUDGETS[name]:8g}" if name in BUDGETS else f"{'':8}"
        print(f"{name:28} {ours.shown(name)} {budget} {theirs.shown(name):>12}")


if __name__ == "__main__":
    main()
