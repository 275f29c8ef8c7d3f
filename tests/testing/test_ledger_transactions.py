"""`kafka_ledger` over transactional producers, on Apache Kafka: what is delivered counts when committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from bench.apache_kafka import ApacheKafka
from confluent_kafka import Producer
from tests.against import Against
from tests.clients.drivers.kafka_python import KafkaProducer

from tidelog.kafka_client.admin import Admin
from tidelog.pipeline.audit.run import audit
from tidelog.testing.ledger import Ledger
from tidelog.testing.plugin import unique

pytestmark = [pytest.mark.slow, pytest.mark.long]

Play = Callable[[Ledger, str, str], None]


@pytest.fixture(scope="module")
def servers(against: Against, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if against.servers:
        yield against.servers
        return
    with ApacheKafka(tmp_path_factory.mktemp("kafka") / "data", brokers=1) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:
    name = unique("topic")
    with Admin(servers) as admin:
        admin.create(name, partitions=1, replicas=1)
    return name


def confluent(ledger: Ledger, servers: str, topic: str) -> None:
    settings = {"bootstrap.servers": servers, "transactional.id": topic, "log_level": 0}
    producer = ledger.wrap(Producer(settings))
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, "a")
    producer.produce(topic, "b")
    assert producer.flush(60) == 0
    assert ledger.counts()["unsettled"] == 2
    producer.commit_transaction(60)
    producer.begin_transaction()
    producer.produce(topic, "c")
    assert producer.flush(60) == 0
    producer.abort_transaction(60)


def kafka_python(ledger: Ledger, servers: str, topic: str) -> None:
    producer = ledger.wrap(KafkaProducer(bootstrap_servers=servers, transactional_id=topic))
    producer.init_transactions()
    producer.begin_transaction()
    sent = [producer.send(topic, value) for value in (b"a", b"b")]
    assert [future.get(60).offset for future in sent] == [0, 1]
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send(topic, b"c").get(60)
    producer.abort_transaction()
    producer.close()


def aiokafka(ledger: Ledger, servers: str, topic: str) -> None:
    async def play() -> None:
        wrapped = ledger.wrap(AIOKafkaProducer(bootstrap_servers=servers, transactional_id=topic))
        async with wrapped as producer:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"a")
                await producer.send_and_wait(topic, b"b")
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"c")
            await producer.abort_transaction()

    asyncio.run(play())


@pytest.mark.parametrize("play", [confluent, kafka_python, aiokafka], ids=lambda play: play.__name__)
def test_a_transaction_decides_about_its_sends(play: Play, servers: str, topic: str, tmp_path: Path) -> None:
    ledger = Ledger(lambda: servers, tmp_path / "evidence")
    play(ledger, servers, topic)
    assert [(send.value, send.outcome) for send in ledger.sends] == [(b"a", 2), (b"b", 2), (b"c", 3)]
    assert ledger.counts() == {"ok": 2, "failed": 1, "unknown": 0, "unsettled": 0}
    ledger.assert_nothing_lost()
    ledger.assert_order()
    ledger.assert_exactly_once(["a", "b"])
    with pytest.raises(AssertionError, match="in the result more often than sent: 1 value"):
        ledger.assert_exactly_once(["a", "b", "c"])
    ledger.close()
    verdict = audit(ledger.folder, engine="local", with_report=False).verdict
    assert verdict["held"], verdict
    assert verdict["totals"]["sends"]["in_transactions"] == 3
    assert not any(verdict["counts"]["aborted read"].values()), verdict["counts"]


def test_what_is_open_is_not_yet_sent(servers: str, topic: str, tmp_path: Path) -> None:
    """A consumer of committed records does not get it; what others wrote behind it is there."""
    ledger = Ledger(lambda: servers, tmp_path / "evidence")
    settings = {"bootstrap.servers": servers, "log_level": 0}
    producer = ledger.wrap(Producer(settings | {"transactional.id": topic}))
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, "open")
    assert producer.flush(60) == 0
    other = ledger.wrap(Producer(settings))
    other.produce(topic, "plain")
    ledger.assert_nothing_lost()
    assert ledger.counts() == {"ok": 1, "failed": 0, "unknown": 0, "unsettled": 1}
    ledger.assert_exactly_once(["plain"])
    producer.abort_transaction(60)
    ledger.close()
    assert audit(ledger.folder, engine="local", with_report=False).verdict["held"]
