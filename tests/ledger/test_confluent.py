"""The fast way of a producer of confluent-kafka, against the brokers that librdkafka plays itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from crc32c import crc32c
from tests.ledger.test_sends import endings, rows_of

from tidelog import ledger
from tidelog.evidence.journals.slots import Ending
from tidelog.ledger.identity import HEADER, content_name, pack_header

PLAYED = {"test.mock.num.brokers": 1, "bootstrap.servers": "played", "log_level": 0, "linger.ms": 1}


def read(producer: Producer, count: int) -> list[tuple[Any, bytes]]:
    """The header and the value of everything in the topic, from the brokers of this producer."""
    (broker,) = producer.list_topics(timeout=60).brokers.values()
    consumer = Consumer(
        {"bootstrap.servers": f"{broker.host}:{broker.port}", "group.id": "g", "log_level": 0}
    )
    partitions = producer.list_topics("t", timeout=60).topics["t"].partitions
    consumer.assign([TopicPartition("t", number, 0) for number in partitions])
    found: list[tuple[Any, bytes]] = []
    while len(found) < count:
        for message in consumer.consume(count, 1):
            assert message.error() is None
            found.append((dict(message.headers() or [])[HEADER], message.value() or b""))
    consumer.close()
    return found


def test_every_way_of_calling(tmp_path: Path) -> None:
    """Whatever is given for value, key, partition and callback: record, callback and row agree."""
    seen: list[tuple[Any, bytes | None, int | None, int | None]] = []

    def called(error: Any, message: Message) -> None:
        seen.append((error, message.value(), message.partition(), message.offset()))

    class Owner:
        def method(self, error: Any, message: Message) -> None:
            called(error, message)

    owner, default = Owner(), partial(called)
    producer = ledger.wrap(Producer(PLAYED), folder=tmp_path / "l", on_delivery=default, rows=64)
    values: list[bytes | str | None] = [b"", b"bytes", "text", None]
    keys: list[bytes | str | None] = [
        None,
        b"",
        b"k",
        "k",
        b"\0\0\0\7",
        b"\0\0",
        b"longer than a column",
        b"\xff",
    ]
    for value in values:
        for key in keys:
            producer.produce("t", value, key)
            producer.produce("t", value=value, key=key, partition=1, callback=called)
            producer.produce("t", value, key, 2, on_delivery=owner.method)
            producer.produce("t", value, key, on_delivery=partial(called))
    with pytest.raises(TypeError):
        producer.produce("t", b"v", partition="none")  # type: ignore[arg-type]
    assert producer.flush(60) == 0
    rows = rows_of(tmp_path / "l")
    assert [row["sequence"] for row in rows] == list(range(len(rows)))
    assert Counter(row["outcome"] for row in rows) == {"ok": 128, "failed": 1}
    assert not [error for error, *_ in seen if error is not None]
    places = {(partition, offset): value for _, value, partition, offset in seen}
    assert len(seen) == len(places) == 128
    for row in rows[:128]:
        value = places[row["partition"], row["offset"]]
        assert row["value"] == (None if value is None else content_name(len(value), crc32c(value)))
    names = [None, None, "k", "k", "???\7", "??", "longer than a co", "?"]
    assert [row["key"] for row in rows[:128:4]] == names * 4


@pytest.mark.parametrize("seconds", [3600.0, 0.002])
def test_threads_share_a_producer(tmp_path: Path, seconds: float) -> None:
    """Numbers are given out once each, without a hole, whatever file a thread was about to use."""
    producer = ledger.wrap(Producer(PLAYED), folder=tmp_path / "l", header=True, rows=64, seconds=seconds)
    seen: list[int | None] = []

    def called(error: Any, message: Message) -> None:
        seen.append(message.offset())

    def send(count: int) -> None:
        for number in range(count):
            producer.produce("t", b"%d" % number, b"k", on_delivery=called)
            producer.poll(0)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=send, args=(700,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert producer.flush(60) == 0
    rows = rows_of(tmp_path / "l")
    assert [row["sequence"] for row in rows] == list(range(2100))
    assert {row["outcome"] for row in rows} == {"ok"}
    numbers: list[int] = []
    stream = int(rows[0]["value"].partition("-")[0], 16)
    assert len(seen) == 2100
    for header, value in read(producer, 2100):
        number = int.from_bytes(header[8:16])
        assert header == pack_header(stream, number, crc32c(value))
        numbers.append(number)
    assert sorted(numbers) == list(range(2100))
    assert endings(tmp_path / "l").count(Ending.OPEN) == 1


def test_what_librdkafka_refuses_or_cannot_deliver(tmp_path: Path) -> None:
    """A full queue is an error of the call, and a failed send; what timed out has its error."""
    settings = {"queue.buffering.max.messages": 3, "message.timeout.ms": 100, "linger.ms": 0}
    away = {"bootstrap.servers": "127.0.0.1:9", "log_level": 0}
    producer = ledger.wrap(Producer(away | settings), folder=tmp_path / "l")
    errors: list[str] = []
    for _ in range(3):
        producer.produce("t", b"v", on_delivery=lambda error, _: errors.append(str(error and error.name())))
    with pytest.raises(BufferError):
        producer.produce("t", b"v")
    assert producer.flush(60) == 0
    rows = rows_of(tmp_path / "l")
    assert [row["outcome"] for row in rows] == ["unknown"] * 3 + ["failed"]
    assert [row["error"] for row in rows] == ["_MSG_TIMED_OUT"] * 3 + ["BufferError"]
    assert errors == ["_MSG_TIMED_OUT"] * 3


_APPLICATION = """
import sys
from confluent_kafka import Producer
from tests.ledger.test_confluent import PLAYED
from tidelog import ledger

producer = ledger.wrap(Producer(PLAYED), folder=sys.argv[1], rows=64)
number = 0
while True:
    producer.produce("t", b"%d" % number, b"key")
    print(number, flush=True)
    producer.poll(0)
    number += 1
"""


def test_a_kill_loses_no_intent(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _APPLICATION, str(tmp_path / "l")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    said = [int(process.stdout.readline()) for _ in range(300)]
    os.kill(process.pid, signal.SIGKILL)
    said += [int(line) for line in process.stdout.read().splitlines()]
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    rows = rows_of(tmp_path / "l")
    assert [row["sequence"] for row in rows] == list(range(len(rows)))
    assert len(rows) in (len(said), len(said) + 1)
    assert {row["outcome"] for row in rows} <= {"ok", "unknown"}


def test_a_sample(tmp_path: Path) -> None:
    """What is outside it passes with its callback; a record without a key is chosen by its value."""
    seen: list[bytes | None] = []
    producer = ledger.wrap(Producer(PLAYED), folder=tmp_path / "l", sample=0.3)
    for number in range(200):
        key = None if number % 2 else b"k%d" % number
        producer.produce(
            "t", b"%d" % number, key, on_delivery=lambda _, message: seen.append(message.value())
        )
    assert producer.flush(60) == 0
    assert len(seen) == 200
    rows = rows_of(tmp_path / "l")
    assert {row["key"] is None for row in rows} == {True, False}
    assert 30 < len(rows) < 90


def test_nothing_else_changes(tmp_path: Path) -> None:
    producer = ledger.wrap(Producer(PLAYED), folder=tmp_path / "l")
    assert isinstance(producer, Producer)
    with pytest.raises(KafkaException):
        producer.init_transactions(1)
