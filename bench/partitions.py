"""Thousands of partitions: how long tidelog and Apache Kafka take to create them, to lead them again after a
broker was killed, and to stop; and what brokers use that have nothing to do.

Three brokers, three replicas each, topics of a hundred partitions with a few records in each. Both systems
notice a dead broker when it has been silent for four seconds, which is part of the time until all partitions
have a leader again. What coordinates the brokers is a process of its own, tidelog's keeper and a controller
of Kafka, so that all three brokers can be stopped one after the other. Before anything is measured brokers
have carried load and have created and deleted some hundred partitions, so that a JVM has compiled what it
needs; the one that was killed gets the same load again before it is stopped.

    python -m bench.partitions [--quick] [--partitions N] [--runs N] [--system tidelog] [--idle] [--json]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial

from bench import client_load
from bench.apache_kafka import ApacheKafka
from bench.client_load import Stopwatch
from bench.comparison import BROKERS, Figure, System, Systems, run_and_tell
from bench.processes import LOOPBACK, eventually, is_alive
from bench.tidelog_up import TidelogUp
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidelog.kafka_client.blocking import Client, ClientError

COUNTS = (1_000, 3_000)
PER_TOPIC = 100
RECORDS = 3
SESSION_MS = 4_000
WARM_UP_SECONDS = 5.0
WARM_UP_PARTITIONS = 300
IDLE_SECONDS = 20.0
PATIENCE_SECONDS = 600.0

KAFKA = {
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": str(SESSION_MS // 4),
    "auto.leader.rebalance.enable": "false",
}
TIDELOG = {"zookeeper.session.timeout.ms": str(SESSION_MS), "auto.leader.rebalance.enable": "false"}
"""Leaderships that go back to their first replicas by themselves would be measured now and then."""

SYSTEMS: Systems = {
    "tidelog": partial(TidelogUp, settings=TIDELOG),
    "kafka": partial(ApacheKafka, settings=KAFKA, own_controller=True),
}


# ---------------------------------------------------------------- what brokers know


def port_of(system: System, broker: int) -> int:
    return system.nodes[broker].port


def view(port: int, topics: list[str]) -> list[tuple[int, list[int]]]:
    """The leader and the ISR of every partition, as one broker knows them; nothing if it does not answer."""
    try:
        with Client(LOOPBACK, port) as client:
            answer = client.metadata(topics)
    except ClientError:
        return []
    return [(part.leader_id, part.isr_nodes) for topic in answer.topics for part in topic.partitions]


def wait_until_led(ports: list[int], topics: list[str], *, but_not_by: int = -1) -> None:
    def led(port: int) -> bool:
        known = view(port, topics)
        return len(known) == len(topics) * PER_TOPIC and all(
            leader not in (-1, but_not_by) for leader, _ in known
        )

    for port in ports:
        eventually(partial(led, port), "all partitions have a leader", PATIENCE_SECONDS)


def wait_until_in_sync(port: int, topics: list[str]) -> None:
    def in_sync() -> bool:
        known = view(port, topics)
        return bool(known) and all(len(isr) == BROKERS for _, isr in known)

    eventually(in_sync, "all replicas are in sync", PATIENCE_SECONDS)


# ---------------------------------------------------------------- what is done to them


def create(system: System, topics: list[str]) -> float:
    """Seconds until the request is answered; that every broker has leaders comes later."""
    admin = AdminClient({"bootstrap.servers": system.bootstrap_servers, "log_level": 0})
    began = time.perf_counter()
    created = admin.create_topics(
        [NewTopic(topic, PER_TOPIC, BROKERS) for topic in topics], request_timeout=PATIENCE_SECONDS
    )
    for result in created.values():
        result.result()
    return time.perf_counter() - began


def fill(system: System, topics: list[str]) -> None:
    producer = Producer({"bootstrap.servers": system.bootstrap_servers, "acks": "all", "log_level": 0})
    for topic in topics:
        for partition in range(PER_TOPIC):
            for number in range(RECORDS):
                producer.produce(topic, f"record {number}".encode(), partition=partition)
        producer.poll(0)
    left = producer.flush(PATIENCE_SECONDS)
    if left:
        raise client_load.Miscounted(f"{left} records were not acknowledged")


def load(system: System) -> None:
    """Nothing of it is left: a broker that is killed would have to read all of it again."""
    servers = system.bootstrap_servers
    client_load.create_topic(servers, "load", 6)
    client_load.produce(servers, "load", partitions=6, record_bytes=1_000, seconds=WARM_UP_SECONDS)
    client_load.delete_topic(servers, "load")


def warm_up(system: System, ports: list[int]) -> None:
    load(system)
    topics = [f"warm-up-{number}" for number in range(WARM_UP_PARTITIONS // PER_TOPIC)]
    for _ in range(2):
        create(system, topics)
        wait_until_led(ports, topics)
        fill(system, topics)
        for topic in topics:
            client_load.delete_topic(system.bootstrap_servers, topic)
        eventually(lambda: not any(map(partial(view, topics=topics), ports)), "the topics are gone", 120.0)


def end(system: System, broker: int, sent: signal.Signals) -> float:
    """Seconds until a broker that gets a signal has ended."""
    pid = system.nodes[broker].pid
    began = time.perf_counter()
    os.kill(pid, sent)
    eventually(lambda: not is_alive(pid), f"broker {broker} ends", PATIENCE_SECONDS, 0.005)
    return time.perf_counter() - began


def controller(system: System) -> int:
    """The broker that is the controller; one that is none if Kafka's is a process of its own."""
    if isinstance(system, ApacheKafka):
        return -1
    with Client(LOOPBACK, port_of(system, min(system.nodes))) as client:
        return int(client.metadata([]).controller_id)


# ---------------------------------------------------------------- one run


def measure(system: System, count: int, *, only_idle: bool = False) -> Iterator[Figure]:
    with system:
        brokers = sorted(system.nodes)
        ports = [port_of(system, broker) for broker in brokers]
        warm_up(system, ports)
        topics = [f"topic-{number}" for number in range(count // PER_TOPIC)]
        yield from creation(system, ports, topics)
        fill(system, topics)
        wait_until_in_sync(ports[0], topics)
        yield idle(system)
        if only_idle:
            return
        leading = controller(system)
        yield from crash(system, next(broker for broker in brokers if broker != leading), topics, "a broker")
        if leading in brokers:
            yield from crash(system, leading, topics, "the controller")
        load(system)
        yield from stops(system, brokers)


def creation(system: System, ports: list[int], topics: list[str]) -> Iterator[Figure]:
    watch = Stopwatch(system.pids)
    began = time.perf_counter()
    yield Figure("create: answered", "s", create(system, topics))
    wait_until_led(ports, topics)
    took = time.perf_counter() - began
    cost = watch.load(len(topics), 0)
    yield Figure(
        "create: led at every broker", "s", took, cost.client_cores, cost.broker_cores, cost.other_cores
    )


def idle(system: System) -> Figure:
    """After a while, in which brokers finish what creation and records have left to do."""
    time.sleep(WARM_UP_SECONDS)
    watch = Stopwatch(system.pids)
    time.sleep(IDLE_SECONDS)
    cost = watch.load(0, 0)
    used = 100 * cost.broker_cores / BROKERS
    return Figure("idle: each broker", "% of a core", used, other_cores=cost.other_cores)


def crash(system: System, broker: int, topics: list[str], what: str) -> Iterator[Figure]:
    """Kill a broker, and start it again."""
    ports = [port_of(system, other) for other in system.nodes if other != broker]
    began = time.perf_counter()
    end(system, broker, signal.SIGKILL)
    wait_until_led(ports, topics, but_not_by=broker)
    yield Figure(f"kill -9 of {what}: all led again", "s", time.perf_counter() - began)
    if isinstance(system, ApacheKafka):
        system.kill_broker(broker)  # it has ended, and is let go of
    began = time.perf_counter()
    system.start_broker(broker)
    for port in ports:
        wait_until_in_sync(port, topics)
    yield Figure(f"start of {what} that was killed: all in sync", "s", time.perf_counter() - began)


def stops(system: System, brokers: list[int]) -> Iterator[Figure]:
    took = [end(system, broker, signal.SIGTERM) for broker in brokers]
    for broker, seconds in zip(("first", "second", "last"), took, strict=True):
        yield Figure(f"SIGTERM of the {broker} broker: ended", "s", seconds)
    yield Figure("SIGTERM of one after the other: all ended", "s", sum(took))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{COUNTS[0]} partitions only")
    parser.add_argument(
        "--partitions", type=int, action="append", help=f"how many; repeatable, in steps of {PER_TOPIC}"
    )
    parser.add_argument("--runs", type=int, default=1, help="runs of each system; the median counts")
    parser.add_argument("--system", choices=SYSTEMS, help="measure only this one")
    parser.add_argument("--idle", action="store_true", help="only until brokers were idle for a while")
    parser.add_argument("--json", action="store_true", help="print every figure of every run as JSON")
    arguments = parser.parse_args()
    names = [arguments.system] if arguments.system else list(SYSTEMS)
    counts = arguments.partitions or (COUNTS[:1] if arguments.quick else COUNTS)
    if any(count < PER_TOPIC or count % PER_TOPIC for count in counts):
        parser.error(f"--partitions must be a multiple of {PER_TOPIC}")
    for count in counts:
        if not arguments.json:
            print(f"\n{count} partitions of {BROKERS} replicas", flush=True)
        code = run_and_tell(
            names,
            partial(measure, count=count, only_idle=arguments.idle),
            arguments.runs,
            systems=SYSTEMS,
            as_json=arguments.json,
        )
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
