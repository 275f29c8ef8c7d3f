"""Wrapped producers and watched consumers of three libraries, on a real cluster, and what an audit makes of
their folder."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from crc32c import crc32c
from tests.clients.drivers.kafka_python import KafkaConsumer, KafkaProducer
from tests.ledger.test_sends import rows_of

from tidelog import Cluster, ledger
from tidelog.errors import Refusal
from tidelog.ledger.identity import HEADER, pack_header
from tidelog.pipeline.audit.run import audit
from tidelog.testing.faults import Faults
from tidelog.testing.plugin import unique

pytestmark = [pytest.mark.slow, pytest.mark.kafka(settings={"min.insync.replicas": 2})]
QUIET = {"log_level": 0}
TEXT = r"ignore:.*does not implement kafka\.serializer:DeprecationWarning"


@pytest.fixture
def kafka(kafka_cluster: Cluster, kafka_faults: Faults) -> Cluster:
    """Healed after each test."""
    return kafka_cluster


@pytest.fixture
def topic(kafka: Cluster) -> str:
    return kafka.topic(unique("topic"))


def confluent(kafka: Cluster, **settings: Any) -> Producer:
    return Producer(kafka.client_config("confluent-kafka") | QUIET | settings)


def reader(kafka: Cluster, topic: str) -> Consumer:
    config = kafka.client_config("confluent-kafka") | QUIET | {"group.id": unique("g")}
    consumer = Consumer(config | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    return found


def judged(folder: Path) -> dict[str, Any]:
    return audit(folder, engine="local", with_report=False).verdict


@pytest.mark.filterwarnings(TEXT)
@pytest.mark.parametrize("header", [False, True])
def test_three_libraries(kafka: Cluster, topic: str, tmp_path: Path, header: bool) -> None:
    """Each behaves as before; sends and reads of all of them are in one folder, which an audit takes."""
    folder, seen = tmp_path / "ledger", []
    first = ledger.wrap(confluent(kafka), folder=folder, name="first", header=header)
    assert isinstance(first, Producer)
    first.produce(topic, "a", "k", headers={"x": "y"}, callback=lambda error, message: seen.append(error))
    assert len(first) == 1
    assert first.flush(60) == 0
    assert seen == [None]
    with ledger.wrap(
        KafkaProducer(value_serializer=lambda value: value.encode(), **kafka.client_config("kafka-python")),
        folder=folder,
        header=header,
    ) as second:
        assert second.send(topic, "b", headers=[("x", b"y")]).get(60).offset == 1

    async def third() -> list[bytes]:
        config = kafka.client_config("aiokafka")
        async with ledger.wrap(AIOKafkaProducer(**config), folder=folder, header=header) as producer:
            assert isinstance(producer, AIOKafkaProducer)
            assert (await producer.send_and_wait(topic, b"c")).offset == 2
            await (await producer.send(topic, None, b"k", partition=0))
        consumer = AIOKafkaConsumer(topic, auto_offset_reset="earliest", **config)
        async with ledger.watch(consumer, folder=folder, name="aio") as watched:
            found = [(await watched.getone()).value]
            async for record in watched:
                found.append(record.value)
                if len(found) == 4:
                    break
            return found

    values = [b"a", b"b", b"c", None]
    assert asyncio.run(third()) == values
    watched = ledger.watch(reader(kafka, topic), folder=folder)
    assert read(watched, 2) == values[:2]
    assert [message.value() for message in watched.consume(2, 60)] == values[2:]
    assert ledger.continuity(watched).is_whole
    assert len(ledger.continuity(watched).streams) == (3 if header else 0)
    watched.close()
    config = kafka.client_config("kafka-python") | {"auto_offset_reset": "earliest"}
    with ledger.watch(KafkaConsumer(topic, **config), folder=folder) as last:
        assert [next(last).value for _ in range(4)] == values
    del first
    verdict = judged(folder)
    assert verdict["held"], verdict
    assert verdict["conclusive"]
    assert verdict["totals"]["sends"]["ok"] == 4
    assert verdict["totals"]["reads"]["everyone"] == 4
    assert judged(folder)["totals"] == verdict["totals"]  # again, with nothing new


def test_a_loss_is_found(kafka: Cluster, topic: str, tmp_path: Path) -> None:
    """Lost in an unclean election: another record is read at the offset that was acknowledged."""
    folder = tmp_path / "ledger"
    producer = ledger.wrap(confluent(kafka), folder=folder)
    for value in ("kept", "kept too"):
        producer.produce(topic, value)
    producer.flush(60)
    with Faults(kafka).unclean_election(topic):
        producer.produce(topic, "lost")
        producer.flush(60)
    producer.produce(topic, "after")
    producer.produce(topic, "not read yet")
    producer.flush(60)
    watched = ledger.watch(reader(kafka, topic), folder=folder)
    assert read(watched, 3) == [b"kept", b"kept too", b"after"]
    watched.close()
    del producer
    verdict = judged(folder)
    assert verdict["counts"]["lost"]["violation"] == 1, verdict
    assert any("losses among 1 acknowledged sends" in words for words in verdict["unjudged"])


def test_without_any_read(kafka: Cluster, topic: str, tmp_path: Path) -> None:
    """Nothing shows what the topic holds: the audit says that, and claims nothing."""
    producer = ledger.wrap(confluent(kafka), folder=tmp_path / "ledger", sample=0.5)
    for number in range(10):
        producer.produce(topic, "x", key=str(number))
    producer.flush(60)
    verdict = judged(tmp_path / "ledger")  # its process still runs
    assert 0 < verdict["totals"]["sends"]["ok"] < 10
    assert not verdict["conclusive"]
    said = "\n".join(verdict["unjudged"])
    assert "lost: neither replica logs nor a final read show what the topic holds" in said
    assert "outside its sample: it records 0.5 of the keys" in said
    del producer
    assert judged(tmp_path / "ledger") == verdict


@pytest.mark.filterwarnings(TEXT)
def test_errors_are_the_librarys(kafka: Cluster, topic: str, tmp_path: Path) -> None:
    producer = ledger.wrap(confluent(kafka), folder=tmp_path / "ledger")
    with pytest.raises(KafkaException, match=r"too large|MSG_SIZE"):
        producer.produce(topic, b"x" * 10_000_000)
    with pytest.raises(TypeError):
        producer.produce()  # type: ignore[call-arg]
    (row,) = rows_of(tmp_path / "ledger")
    assert (row["outcome"], row["error"]) == ("failed", "KafkaException")
    with pytest.raises(Refusal, match="wrap takes a producer of confluent-kafka"):
        ledger.wrap(object(), folder=tmp_path / "other")
    consumer = KafkaConsumer(topic, value_deserializer=bytes, **kafka.client_config("kafka-python"))
    with pytest.raises(Refusal, match="watch takes a consumer that returns bytes"):
        ledger.watch(consumer, folder=tmp_path / "other")
    consumer.close()
    assert not (tmp_path / "other").exists()


def test_what_is_wrong_with_a_stream_is_named(kafka: Cluster, topic: str, tmp_path: Path) -> None:
    """Numbers 0, 1, 3, 2, 2 and 5 arrive, the last with another value than it was sent with."""
    producer = confluent(kafka)
    for number in (0, 1, 3, 2, 2, 5):
        value = b"%d" % number
        header = pack_header(7, number, crc32c(value))
        producer.produce(topic, value if number < 5 else b"other", headers={HEADER: header})
    producer.produce(topic, "of another application")
    producer.flush(60)
    watched = ledger.watch(reader(kafka, topic), folder=tmp_path / "ledger")
    read(watched, 7)
    watched.close()
    found = ledger.continuity(watched)
    stream = f"of stream {7:016x} is"
    assert [str(flawed) for flawed in found.flaws()] == [
        f"{topic}: number 4 {stream} missing",
        f"{topic}-0@3: number 2 {stream} out of order",
        f"{topic}-0@4: number 2 {stream} repeated",
        f"{topic}-0@5: number 5 {stream} changed",
    ]
    assert not found.is_whole
    assert found.unmarked == 1


_APPLICATIONS = {
    "confluent-kafka": """
from confluent_kafka import Producer

settings = {"bootstrap.servers": servers, "linger.ms": 1, "log_level": 0}
producer = ledger.wrap(Producer(settings), **options)
for number in count():
    producer.produce(topic, f"{number}", on_delivery=lambda error, _: print(error, flush=True))
    producer.poll(0)
    while len(producer) > 1000:
        producer.poll(0.1)
""",
    "kafka-python": """
from tests.clients.drivers.kafka_python import KafkaProducer

producer = ledger.wrap(KafkaProducer(bootstrap_servers=servers, linger_ms=1), **options)
for number in count():
    future = producer.send(topic, b"%d" % number).add_callback(lambda _: print(None, flush=True))
    if not number % 1000:
        future.get(60)
""",
    "aiokafka": """
import asyncio
from aiokafka import AIOKafkaProducer

async def main():
    async with ledger.wrap(AIOKafkaProducer(bootstrap_servers=servers), **options) as producer:
        for number in count():
            future = await producer.send(topic, b"%d" % number)
            future.add_done_callback(lambda _: print(None, flush=True))
            if not number % 1000:
                await future

asyncio.run(main())
""",
}
_BEGINNING = """
import sys
from itertools import count
from tidelog import ledger

servers, topic, folder = sys.argv[1:]
options = {"folder": folder, "header": True, "rows": 1024}
"""


@pytest.mark.parametrize("library", _APPLICATIONS)
def test_kill_9_of_an_application(kafka: Cluster, topic: str, tmp_path: Path, library: str) -> None:
    """Whatever the broker holds of a killed application has its intent on disk; and what it was told is
    there."""
    folder = tmp_path / "ledger"
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", _BEGINNING + _APPLICATIONS[library]),
            *(kafka.bootstrap_servers, topic, str(folder)),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(2000)]
    os.kill(process.pid, signal.SIGKILL)
    told += process.stdout.read().splitlines()
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    rows = rows_of(folder)
    assert sum(row["outcome"] == "ok" for row in rows) >= len(told) - 1
    # Acknowledged by the leader alone, a record can be read when the followers have it.
    last = max(row["offset"] for row in rows if row["outcome"] == "ok")
    watched = ledger.watch(reader(kafka, topic), folder=folder)
    held = read(watched, last + 1)
    held += [message.value() for message in watched.consume(5000, 1)]
    watched.close()
    assert set(held) <= {b"%d" % number for number in range(len(rows))}
    (stream,) = ledger.continuity(watched).streams.values()
    assert stream.ranges == [[0, len(held)]]
    assert ledger.continuity(watched).is_whole
    verdict = judged(folder)
    assert verdict["held"], verdict
    assert verdict["totals"]["sends"]["total"] == len(rows)
    assert not any("losses among" in words for words in verdict["unjudged"])
