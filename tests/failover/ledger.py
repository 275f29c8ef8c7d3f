"""What producers were promised, what a consumer saw, and what the log holds in the end.

Every value is sent once by the application and is unique, so whatever a log holds can be traced. A send has
three outcomes: acknowledged at an offset; refused, so that it must not be in the log; or in doubt.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self

from bench.processes import PATIENCE_SECONDS, eventually
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

Place = tuple[int, int]
"""Partition and offset."""

# Said before anything is appended: a record that was refused so is nowhere.
DEFINITE = (KafkaError.NOT_ENOUGH_REPLICAS,)

_producers = itertools.count()


@dataclass
class Ledger:
    sent: list[tuple[int, bytes]] = field(default_factory=list)
    """Partition and value, in the order of sending."""
    acknowledged: dict[bytes, Place | None] = field(default_factory=dict)
    """None: somewhere. When the answer to a batch of an idempotent producer was lost, librdkafka learns
    from that to a later one that the batch has arrived, but not where."""
    failed: dict[bytes, int] = field(default_factory=dict)
    """Error codes, as the client reported them."""

    def audit(self, log: dict[Place, bytes], *, ordered_and_once: bool) -> None:
        """Fail unless the log keeps every promise."""
        held = Counter(log.values())
        lost = {
            value: place
            for value, place in self.acknowledged.items()
            if (value not in held if place is None else log.get(place) != value)
        }
        assert not lost, f"acknowledged, not there: {lost}"
        assert not held.keys() - {value for _, value in self.sent}, "records that nobody sent"
        refused = {value for value, code in self.failed.items() if code in DEFINITE}
        assert not held.keys() & refused, "records that were refused"
        if ordered_and_once:
            assert held.total() == len(held), f"twice: {[v for v, n in held.items() if n > 1]}"
            for partition in {place[0] for place in log}:
                sent = [value for where, value in self.sent if where == partition and value in held]
                stored = [value for (where, _), value in sorted(log.items()) if where == partition]
                assert stored == sent, f"another order in partition {partition}"


class Load:
    """Sends records to all partitions in turn for as long as the `with` block lasts, then waits for all."""

    def __init__(
        self, bootstrap_servers: str, topic: str, partitions: int, *, idempotent: bool = True
    ) -> None:
        self.ledger = Ledger()
        self._topic, self._partitions = topic, partitions
        self._by_partition: Counter[int] = Counter()
        self._name = f"p{next(_producers)}"
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "log_level": 0,
                "acks": "all",
                "enable.idempotence": idempotent,
                "linger.ms": 2,
                "message.timeout.ms": 90_000,
                # A frozen broker answers nothing and closes nothing: do not wait for it for a minute.
                "request.timeout.ms": 3_000,
                "socket.timeout.ms": 4_000,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
            }
        )

    def _send(self) -> None:
        for number in itertools.count():
            if self._ending.is_set():
                return
            value, partition = b"%s-%d" % (self._name.encode(), number), number % self._partitions
            self.ledger.sent.append((partition, value))
            self._producer.produce(
                self._topic, value, partition=partition, on_delivery=partial(self._delivered, value)
            )
            # A load, not a flood: what is in doubt at a fault stays a small part of the whole.
            self._producer.poll(0.001)
            while len(self._producer) > 1_000 and not self._ending.is_set():
                self._producer.poll(0.05)

    def _delivered(self, value: bytes, error: KafkaError | None, message: Message) -> None:
        if error:
            self.ledger.failed[value] = error.code()
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        self.ledger.acknowledged[value] = None if offset is None else (partition, offset)
        self._by_partition[partition] += 1

    def wait_for(self, more: int, partition: int | None = None) -> None:
        """Until this many more records were acknowledged, in one partition or in all of them together."""

        def count() -> int:
            return self._by_partition.total() if partition is None else self._by_partition[partition]

        wanted = count() + more
        eventually(lambda: count() >= wanted, f"{more} more acknowledgements", 80.0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()
        if kind is None:
            assert self._producer.flush(PATIENCE_SECONDS) == 0
            assert len(self.ledger.acknowledged) + len(self.ledger.failed) == len(self.ledger.sent)
        self._producer.purge()


def audit_seen(seen: list[tuple[Place, bytes]], log: dict[Place, bytes]) -> None:
    """Fail unless each record was seen once, in order, without a gap, and is still where it was seen."""
    rewritten = [(place, value) for place, value in seen if log.get(place) != value]
    assert not rewritten, f"seen, and something else later: {rewritten}"
    for partition in {place[0] for place, _ in seen}:
        offsets = [offset for (where, offset), _ in seen if where == partition]
        assert offsets == list(range(len(offsets))), f"skips or repeats in partition {partition}"


class Tail:
    """Reads all partitions for as long as the `with` block lasts; what it has seen must stay true."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self.seen: list[tuple[Place, bytes]] = []
        self._consumer = _consumer(bootstrap_servers)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        while not self._ending.is_set():
            self.seen += [_placed(each) for each in self._consumer.consume(500, 0.1) if not each.error()]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()
        self._consumer.close()

    def audit(self, log: dict[Place, bytes]) -> None:
        assert self.seen
        audit_seen(self.seen, log)


def read_all(bootstrap_servers: str, topic: str, partitions: int) -> dict[Place, bytes]:
    """Everything that is committed now."""
    consumer = _consumer(bootstrap_servers)
    log: dict[Place, bytes] = {}
    try:
        wheres = [TopicPartition(topic, number, 0) for number in range(partitions)]
        ends = [
            (consumer.get_watermark_offsets(where, timeout=PATIENCE_SECONDS) or (0, 0))[1] for where in wheres
        ]
        consumer.assign(wheres)
        deadline = time.monotonic() + 60
        while len(log) < sum(ends):
            assert time.monotonic() < deadline, f"{len(log)} of {sum(ends)} records"
            log |= dict(_placed(each) for each in consumer.consume(1_000, 0.2) if not each.error())
    finally:
        consumer.close()
    return log


def _consumer(bootstrap_servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "log_level": 0,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "topic.metadata.refresh.interval.ms": 1_000,
            "reconnect.backoff.max.ms": 500,
            "fetch.wait.max.ms": 100,
            "socket.timeout.ms": 4_000,
        }
    )


def _placed(message: Message) -> tuple[Place, bytes]:
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert value is not None
    return (partition, offset), bytes(value)
