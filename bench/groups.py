"""Consumer groups and idempotent producers, tidelog and Apache Kafka in alternating runs.

Three brokers, confluent-kafka as the client of both, positions replicated three times and acknowledged by all
in-sync replicas. A rebalance is measured from the moment the 51st member is made until all of them have their
partitions again; members poll every few milliseconds and send heartbeats every 200 ms, so that much of it is
the client's. What idempotence costs, two loads say that alternate within a run: see `bench.raw_produce`.

    python -m bench.groups [--quick] [--runs N] [--system tidelog] [--json]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from bench import client_load
from bench.client_load import Stopwatch
from bench.comparison import SYSTEMS, Figure, System, run_and_tell
from bench.processes import eventually
from bench.raw_produce import RawProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

PARTITIONS = 100
POSITIONS = "positions"
HEARTBEAT_MS = 200
PATIENCE_SECONDS = 120.0
COMMITTERS = 20
IN_FLIGHT_MAX = 500
"""Pipelined commits without an answer: more would only wait in the client."""


@dataclass(frozen=True)
class Plan:
    members: int
    rebalances: int
    commit_seconds: float
    produce_requests: int
    produce_rounds: int


FULL = Plan(members=50, rebalances=3, commit_seconds=5, produce_requests=5_000, produce_rounds=7)
QUICK = Plan(members=50, rebalances=1, commit_seconds=2, produce_requests=2_000, produce_rounds=3)


# ---------------------------------------------------------------- a rebalance


def member(servers: str, group: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "log_level": 0,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "session.timeout.ms": 30_000,
            "partition.assignment.strategy": "range",
        }
    )
    consumer.subscribe([topic])
    return consumer


class Members:
    """All polled in turn by one thread, as their programs would each do."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        self._belonging = (servers, group, topic)
        self._all: list[Consumer] = []

    def join(self, count: int) -> float:
        """Seconds until so many more have joined and everybody has a share."""
        started = time.perf_counter()
        self._all += [member(*self._belonging) for _ in range(count)]
        deadline = started + PATIENCE_SECONDS
        while not self._settled():
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{len(self._all)} members do not come to rest")
            for each in self._all:
                each.poll(0)
            time.sleep(0.002)
        return time.perf_counter() - started

    def _settled(self) -> bool:
        shares = [len(each.assignment()) for each in self._all]
        return sum(shares) == PARTITIONS and min(shares) > 0

    def close(self) -> None:
        closing = [threading.Thread(target=each.close) for each in self._all]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()


def rebalances(system: System, plan: Plan) -> Iterator[Figure]:
    client_load.create_topic(system.bootstrap_servers, "shared", PARTITIONS)
    forming, joining = [], []
    for number in range(plan.rebalances):
        with ExitStack() as stack:
            members = Members(system.bootstrap_servers, f"rebalancing-{number}", "shared")
            stack.callback(members.close)
            forming.append(members.join(plan.members))
            joining.append(members.join(1))
    yield Figure(f"{plan.members} members form a group", "s", statistics.median(forming))
    yield Figure(f"one more joins {plan.members}: all have shares again", "s", statistics.median(joining))


# ---------------------------------------------------------------- commits


def committer(servers: str, group: str, commits: list[object] | None = None) -> Consumer:
    settings: dict[str, object] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "log_level": 0,
        "enable.auto.commit": False,
    }
    if commits is not None:

        def told(error: KafkaError | None, _offsets: list[TopicPartition]) -> None:
            commits.append(error)

        settings["on_commit"] = told
    return Consumer(settings)


def commit(consumer: Consumer, offset: int) -> None:
    consumer.commit(offsets=[TopicPartition(POSITIONS, 0, offset)], asynchronous=False)


def ready(servers: str, group: str) -> Consumer:
    """A committer whose coordinator is known and has answered once."""
    consumer = committer(servers, group)

    def answered() -> bool:
        try:
            commit(consumer, 0)
        except KafkaException:
            return False
        return True

    eventually(answered, f"{group} can commit", 60.0)
    return consumer


def synchronous(system: System, seconds: float, committers: int) -> Figure:
    """Each waits for its answer before it commits again."""
    servers = system.bootstrap_servers
    consumers = [ready(servers, f"committing-{number}") for number in range(committers)]
    counts = [0] * committers
    watch = Stopwatch(system.pids)
    until = time.perf_counter() + seconds

    def work(number: int) -> None:
        while time.perf_counter() < until:
            counts[number] += 1
            commit(consumers[number], counts[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(committers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    load = watch.load(sum(counts), 0)
    for consumer in consumers:
        consumer.close()
    name = f"commits, {committers} consumer{'s' * (committers > 1)}, each waits for its answer"
    return _figure(name, load)


def pipelined(system: System, seconds: float) -> Figure:
    """One consumer that does not wait; commits without an answer are bounded."""
    servers = system.bootstrap_servers
    ready(servers, "pipelining").close()
    answers: list[object] = []
    consumer = committer(servers, "pipelining", answers)
    commit(consumer, 0)
    consumer.poll(1.0)  # the answer to that one
    answers.clear()
    sent = 0
    watch = Stopwatch(system.pids)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        while sent - len(answers) < IN_FLIGHT_MAX and time.perf_counter() < until:
            sent += 1
            consumer.commit(offsets=[TopicPartition(POSITIONS, 0, sent)], asynchronous=True)
        consumer.poll(0.001)
    deadline = time.perf_counter() + PATIENCE_SECONDS
    while len(answers) < sent and time.perf_counter() < deadline:
        consumer.poll(0.01)
    load = watch.load(len(answers), 0)
    failed = [error for error in answers if error is not None]
    if failed or len(answers) < sent:
        raise client_load.Miscounted(f"{sent} commits, {len(answers)} answers, errors {failed[:3]}")
    found = consumer.committed([TopicPartition(POSITIONS, 0)], timeout=30)[0].offset
    consumer.close()
    if found != sent:
        raise client_load.Miscounted(f"committed {sent}, found {found}")
    return _figure("commits, one consumer, pipelined", load)


def _figure(name: str, load: client_load.Load) -> Figure:
    cores = (load.client_cores, load.broker_cores, load.other_cores)
    return Figure(name, "commits/s", load.records_per_second, *cores)


# ---------------------------------------------------------------- idempotence


def idempotence(system: System, plan: Plan) -> Iterator[Figure]:
    """Both loads in turn, each on a topic of its own, so that a noisy minute hits both."""
    loads: dict[bool, list[client_load.Load]] = {False: [], True: []}
    for number in range(plan.produce_rounds + 1):
        for idempotent in (False, True) if number % 2 else (True, False):
            topic = f"load-{number}-{idempotent}"
            client_load.create_topic(system.bootstrap_servers, topic, 1)
            producer = RawProducer(system.bootstrap_servers, topic, idempotent=idempotent)
            load = producer.load(plan.produce_requests, system.pids)
            client_load.delete_topic(system.bootstrap_servers, topic)
            if number:  # the first round only warms up
                loads[idempotent].append(load)
    speed, cost = {}, {}
    for idempotent, taken in loads.items():
        speed[idempotent] = statistics.median(each.records_per_second for each in taken)
        cost[idempotent] = statistics.median(each.broker_cores / each.records_per_second for each in taken)
        kind = "idempotent" if idempotent else "plain"
        yield Figure(
            f"produce, 20 records of 100 B a request, {kind}", "k records/s", speed[idempotent] / 1e3
        )
    yield Figure("idempotent / plain: records per second", "", speed[True] / speed[False])
    yield Figure("idempotent / plain: the brokers' CPU per record", "", cost[True] / cost[False])


# ---------------------------------------------------------------- all of it


def measure(system: System, plan: Plan) -> Iterator[Figure]:
    with system:
        # Commits first: followers name every partition they have in each fetch, and there will be many.
        client_load.create_topic(system.bootstrap_servers, POSITIONS, 1)
        yield synchronous(system, plan.commit_seconds, 1)
        yield synchronous(system, plan.commit_seconds, COMMITTERS)
        yield pipelined(system, plan.commit_seconds)
        yield from rebalances(system, plan)
        yield from idempotence(system, plan)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short measurements, one run")
    parser.add_argument("--runs", type=int, help="runs of each system; the median counts (default 3)")
    parser.add_argument("--system", choices=SYSTEMS, help="measure only this one")
    parser.add_argument("--json", action="store_true", help="print every figure of every run as JSON")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    runs = arguments.runs or (1 if arguments.quick else 3)
    names = [arguments.system] if arguments.system else list(SYSTEMS)
    return run_and_tell(names, partial(measure, plan=plan), runs, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
