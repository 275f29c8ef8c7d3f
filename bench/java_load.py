"""What Kafka's own Java client gets out of a cluster, driven by Kafka's own performance tools.

Each load is a JVM of its own, which has to compile the client first. The producer's figure is that of the
second half of its records; the consumer's is that of all, so it says much about the client. The brokers' CPU
is that of the whole load.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence

from bench.client_load import Load, Miscounted, Stopwatch
from bench.jars import java, kafka_jars

BATCH_BYTES = 16_384
"""The client's own default."""
_SECONDS_MAX = 300.0
_STEADY = re.compile(r"^(\d+) steady state records sent, ([\d.]+) records/sec \(", re.MULTILINE)


def produce(
    bootstrap_servers: str, topic: str, *, records: int, record_bytes: int, broker_pids: Sequence[int]
) -> Load:
    """Send records with acks=all, linger 5 ms and batches of 16 KB."""
    properties = (
        f"bootstrap.servers={bootstrap_servers}",
        "acks=all",
        "linger.ms=5",
        f"batch.size={BATCH_BYTES}",
        "enable.idempotence=false",
    )
    watch, before = Stopwatch(broker_pids), _used_by_clients()
    said = _run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(2 * records), "--warmup-records", str(records)),
        *("--record-size", str(record_bytes), "--throughput", "-1", "--reporting-interval", "600000"),
        *("--command-property", *properties),
    )
    whole = watch.load(2 * records, 2 * records * record_bytes)
    steady = _STEADY.search(said)
    if steady is None or int(steady[1]) != records:
        raise Miscounted(f"{topic}: Kafka's producer said {said.strip()[-300:]!r}")
    return _at(whole, float(steady[2]), _used_by_clients() - before)


def consume(
    bootstrap_servers: str, topic: str, *, records: int, record_bytes: int, broker_pids: Sequence[int]
) -> Load:
    """Read that many records from the beginning. The time until the group has formed does not count."""
    watch, before = Stopwatch(broker_pids), _used_by_clients()
    said = _run(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", bootstrap_servers, "--topic", topic, "--num-records", str(records)),
        *("--hide-header", "--timeout", "30000"),
    )
    whole = watch.load(records, records * record_bytes)
    lines = [line.split(", ") for line in said.splitlines() if line.count(", ") == 9]
    if not lines or int(lines[-1][4]) < records:
        raise Miscounted(f"{topic}: Kafka's consumer said {said.strip()[-300:]!r}")
    return _at(whole, float(lines[-1][9]), _used_by_clients() - before)


def _used_by_clients() -> float:
    """CPU seconds of the processes that this one has started and that have ended."""
    used = os.times()
    return used.children_user + used.children_system


def _at(whole: Load, records_per_second: float, client_seconds: float) -> Load:
    """The load at this rate, for the same CPU."""
    seconds = whole.records / records_per_second
    return Load(
        whole.records,
        whole.bytes,
        seconds,
        client_seconds / seconds,
        whole.broker_cores * whole.seconds / seconds,
        max(0.0, whole.other_cores - client_seconds / whole.seconds),
    )


def _run(main_class: str, *arguments: str) -> str:
    command = [java(), "-Xmx512m", "-Dlog4j2.level=ERROR", "-cp", f"{kafka_jars()}/*", main_class]
    try:
        done = subprocess.run(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        raise Miscounted(f"{main_class} did not end within {_SECONDS_MAX:g} s") from None
    if done.returncode:
        raise Miscounted(f"{main_class} ended with {done.returncode}: {done.stdout.strip()[-300:]}")
    return done.stdout
