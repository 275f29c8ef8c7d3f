"""What a real client, confluent-kafka, gets out of a cluster: throughput, latency, and at what cost.

The client runs in this process, so its CPU time is this process's. Records are counted three times: handed to
the client, not left behind by `flush`, and found in the log by its end offsets; a disagreement ends the run.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.processes import busy_seconds, cpu_seconds, eventually
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

# The client's queue: large enough to keep every broker busy, small enough that flushing it is a short tail.
_QUEUE_KBYTES = 64 * 1024
_HANDED_AT_ONCE_BYTES = 200_000

# A topic that was just created is not known to every broker at once.
_NOT_YET_KNOWN = (
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)


class Miscounted(Exception):
    """Records went missing between the client and the log, or the client reported errors."""


@dataclass
class Load:
    """How fast records went, and what that cost. CPU is in cores: seconds of CPU for each second."""

    records: int
    bytes: int
    seconds: float
    client_cores: float
    broker_cores: float
    other_cores: float
    """What the rest of the machine used meanwhile: more than a little, and the figure says little."""

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes / self.seconds / 1e6


@dataclass
class Stopwatch:
    """Wall clock, and the CPU time of this process, of the brokers and of all, from its creation on."""

    broker_pids: Sequence[int]
    _started: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._started = self._now()

    def load(self, records: int, byte_count: int) -> Load:
        wall, client, brokers, all_of_it = (
            now - then for now, then in zip(self._now(), self._started, strict=True)
        )
        others = max(0.0, all_of_it - client - brokers)
        return Load(records, byte_count, wall, client / wall, brokers / wall, others / wall)

    def _now(self) -> tuple[float, ...]:
        brokers = sum(map(cpu_seconds, self.broker_pids))
        return time.perf_counter(), time.process_time(), brokers, busy_seconds()


def create_topic(bootstrap_servers: str, topic: str, partitions: int, replicas: int = 3) -> None:
    """Create a topic and wait until every partition has a leader and all its replicas in sync."""
    admin = AdminClient(_client(bootstrap_servers))
    config = {"min.insync.replicas": str(min(2, replicas))}
    admin.create_topics([NewTopic(topic, partitions, replicas, config=config)])[topic].result(30)

    def settled() -> bool:
        described = admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
        return len(described) == partitions and all(len(each.isrs) == replicas for each in described)

    eventually(settled, f"all replicas of {topic} in sync", 60.0)


def delete_topic(bootstrap_servers: str, topic: str) -> None:
    admin = AdminClient(_client(bootstrap_servers))
    admin.delete_topics([topic])[topic].result(30)


def produce(
    bootstrap_servers: str,
    topic: str,
    *,
    partitions: int,
    record_bytes: int,
    seconds: float,
    broker_pids: Sequence[int] = (),
    idempotent: bool = False,
) -> Load:
    """Send records of one size round-robin for some time with acks=all, and wait for the last of them."""
    errors: list[str] = []
    producer = Producer(
        {
            **_client(bootstrap_servers),
            "acks": "all",
            "linger.ms": 5,
            "compression.type": "none",
            "enable.idempotence": idempotent,
            "queue.buffering.max.kbytes": _QUEUE_KBYTES,
            "queue.buffering.max.messages": 10_000_000,
            # A callback for each record would measure Python. Only failures are reported.
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: errors.append(str(error)),
            "error_cb": lambda error: errors.append(str(error)),
        }
    )
    producer.list_topics(topic, timeout=30)
    # An idempotent producer first waits half a second for its id, which is the client's own doing.
    producer.produce(topic, b"first", partition=0)
    producer.flush(30)
    before = end_offsets(bootstrap_servers, topic, partitions)
    value = os.urandom(record_bytes)
    at_once = max(1, _HANDED_AT_ONCE_BYTES // record_bytes)
    watch = Stopwatch(broker_pids)
    until = time.perf_counter() + seconds
    handed = 0
    while time.perf_counter() < until:
        partition = (handed // at_once) % partitions
        handed += _hand_over(producer, topic, partition, [{"value": value} for _ in range(at_once)])
    left = _unsent(producer, 120)
    load = watch.load(handed, handed * record_bytes)
    found = end_offsets(bootstrap_servers, topic, partitions) - before
    if left or errors or found != handed:
        raise Miscounted(f"{topic}: sent {handed}, unsent {left}, found {found}, errors {errors[:3]}")
    return load


def _hand_over(producer: Producer, topic: str, partition: int, records: list[dict[str, Any]]) -> int:
    """Give all records to the client, waiting while its queue is full."""
    handed = 0
    while records:
        handed += producer.produce_batch(topic, records, partition=partition)
        records = [record for record in records if "_error" in record]
        for record in records:
            error = record.pop("_error")
            if error.code() != KafkaError._QUEUE_FULL:
                raise KafkaException(error)
        producer.poll(0.01 if records else 0)
    return handed


def _unsent(producer: Producer, seconds: float) -> int:
    """Wait for all acknowledgements, in small steps: Ctrl-C does not interrupt a long wait in the client."""
    deadline = time.monotonic() + seconds
    while (left := producer.flush(0.2)) and time.monotonic() < deadline:
        pass
    return left


def consume(
    bootstrap_servers: str,
    topic: str,
    *,
    partitions: int,
    record_bytes: int,
    broker_pids: Sequence[int] = (),
) -> Load:
    """Read a whole topic from its beginning. The clock starts with the first records."""
    expected = end_offsets(bootstrap_servers, topic, partitions)
    consumer = Consumer(
        {
            **_client(bootstrap_servers),
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": _QUEUE_KBYTES,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    try:
        first = _next(consumer)
        watch = Stopwatch(broker_pids)
        read = 0
        while read + first < expected:
            read += _next(consumer)
        return watch.load(read, read * record_bytes)
    finally:
        consumer.close()


def _next(consumer: Consumer) -> int:
    # A short wait, because `consume` waits for as many as it was asked for even when the end is reached.
    messages = eventually(lambda: consumer.consume(10_000, 0.05), "records before the end", every_seconds=0)
    if error := next((message.error() for message in messages if message.error()), None):
        raise KafkaException(error)
    return len(messages)


def acknowledgement_latencies(
    bootstrap_servers: str, topic: str, *, partitions: int, record_bytes: int, per_second: int, seconds: float
) -> list[float]:
    """Seconds from handing a record over to its acknowledgement, for each of an even stream of records."""
    latencies: list[float] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error:
            raise KafkaException(error)
        latencies.append(message.latency() or 0.0)

    producer = Producer(
        {**_client(bootstrap_servers), "acks": "all", "linger.ms": 0, "on_delivery": delivered}
    )
    producer.list_topics(topic, timeout=30)
    value = os.urandom(record_bytes)
    started = time.perf_counter()
    total = int(per_second * seconds)
    for number in range(total):
        producer.produce(topic, value, partition=number % partitions)
        due = started + (number + 1) / per_second
        while (wait := due - time.perf_counter()) > 0:
            producer.poll(wait)
    if _unsent(producer, 60) or len(latencies) != total:
        raise Miscounted(f"{topic}: {len(latencies)} of {total} records acknowledged")
    return latencies[per_second // 2 :]  # the first half second warms connections up


def percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def end_offsets(bootstrap_servers: str, topic: str, partitions: int) -> int:
    """How many records a topic holds, if none was ever deleted."""
    consumer = Consumer({**_client(bootstrap_servers), "group.id": "bench"})

    def end_offset(partition: int) -> tuple[int, int] | None:
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        except KafkaException as error:
            if error.args[0].code() in _NOT_YET_KNOWN:
                return None
            raise

    try:
        watermarks = [
            eventually(partial(end_offset, number), f"the end of {topic}-{number} is known")
            for number in range(partitions)
        ]
    finally:
        consumer.close()
    return sum(high for _, high in watermarks)


def _client(bootstrap_servers: str) -> dict[str, Any]:
    # Errors reach us as exceptions; what the client would print besides belongs in no table.
    return {"bootstrap.servers": bootstrap_servers, "log_level": 0}


def seconds_to_first_acknowledgement(start: Callable[[], str], replicas: int = 3) -> float:
    """From calling `start`, which returns the bootstrap servers, to a record that is on all replicas."""
    started = time.perf_counter()
    bootstrap_servers = start()
    quick = {**_client(bootstrap_servers), "reconnect.backoff.ms": 10}
    admin = AdminClient(quick)

    def created() -> bool:
        future = admin.create_topics([NewTopic("first", 1, replicas)], request_timeout=5)["first"]
        try:
            future.result(10)
        except KafkaException as error:
            # Too few brokers have registered so far, or the answer to an earlier attempt was lost.
            return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
        return True

    eventually(created, "a topic can be created", 120.0)
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error:
            failed.append(error)

    producer = Producer(
        {**quick, "acks": "all", "linger.ms": 0, "topic.metadata.refresh.fast.interval.ms": 10}
    )
    producer.produce("first", b"first", on_delivery=delivered)
    if _unsent(producer, 60) or failed:
        raise Miscounted(f"the first record was not acknowledged: {failed}")
    return time.perf_counter() - started
