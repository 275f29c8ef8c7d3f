"""The ledger: every send is written down before it is made, and what was acknowledged is looked for."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from confluent_kafka import Producer
from tests.clients.drivers.kafka_python import KafkaProducer
from tests.testing.plugged import run

from tidelog import Cluster
from tidelog.errors import Refusal
from tidelog.evidence.folder import Manifest
from tidelog.pipeline.audit.run import audit
from tidelog.testing.faults import Faults
from tidelog.testing.ledger import Ledger
from tidelog.testing.plugin import unique

pytestmark = [pytest.mark.slow, pytest.mark.kafka(settings={"min.insync.replicas": 2})]
QUIET = {"log_level": 0}


@pytest.fixture
def kafka(kafka_cluster: Cluster, kafka_faults: Faults) -> Cluster:
    """Healed after each test."""
    return kafka_cluster


@pytest.fixture
def topic(kafka: Cluster) -> str:
    return kafka.topic(unique("topic"))


@pytest.fixture
def ledger(kafka: Cluster, tmp_path: Path) -> Ledger:
    return Ledger(lambda: kafka.bootstrap_servers, tmp_path / "evidence")


def confluent(kafka: Cluster, **settings: Any) -> Producer:
    return Producer(kafka.client_config("confluent-kafka") | QUIET | settings)


@pytest.mark.filterwarnings("ignore:.*does not implement kafka.serializer:DeprecationWarning")
def test_three_libraries(kafka: Cluster, ledger: Ledger, topic: str) -> None:
    """Each producer goes on as before, with its own callbacks, futures and serializers."""
    seen: list[object] = []
    first = ledger.wrap(confluent(kafka))
    first.produce(topic, "a", key="k", on_delivery=lambda error, _: seen.append(error))
    assert len(first) == 1
    assert first.flush(60) == 0
    config = kafka.client_config("kafka-python")
    with ledger.wrap(
        KafkaProducer(value_serializer=lambda value: json.dumps(value).encode(), **config)
    ) as second:
        assert second.send(topic, {"b": 1}).get(60).offset == 1

    async def send() -> None:
        async with ledger.wrap(AIOKafkaProducer(**kafka.client_config("aiokafka")), "third") as third:
            assert (await third.send_and_wait(topic, b"c")).offset == 2
            await (await third.send(topic, b"d", partition=0))

    asyncio.run(send())
    assert seen == [None]
    assert ledger.counts() == {"ok": 4, "failed": 0, "unknown": 0, "unsettled": 0}
    assert [send.offset for send in ledger.sends] == [0, 1, 2, 3]
    assert [send.acks for send in ledger.sends] == [-1, -1, 1, 1]  # as aiokafka is without a setting
    ledger.assert_nothing_lost()
    ledger.assert_order()
    ledger.assert_exactly_once(["a", b'{"b": 1}', "c", "d"])
    with pytest.raises(Refusal, match="takes a producer of confluent-kafka, kafka-python or aiokafka"):
        ledger.wrap(object())


def test_the_intent_is_on_disk_before_the_send(kafka: Cluster, ledger: Ledger, topic: str) -> None:
    producer = ledger.wrap(confluent(kafka))
    with Faults(kafka).hold("Produce", topic=topic):
        producer.produce(topic, "a")
        producer.flush(0.2)
        (line,) = (ledger.folder / "journal" / "ledger-p1.jsonl").read_text().splitlines()
        assert json.loads(line)["value"] == "p1-0"
        assert json.loads(line)["outcome"] == "unknown"
    ledger.assert_nothing_lost()
    assert ledger.counts()["ok"] == 1


def test_a_lost_record_is_named(kafka: Cluster, ledger: Ledger, topic: str) -> None:
    """Lost in an unclean election; what was kept is not named."""
    producer = ledger.wrap(confluent(kafka))
    producer.produce(topic, "kept")
    producer.flush(60)
    with Faults(kafka).unclean_election(topic):
        producer.produce(topic, "lost")
        producer.flush(60)
    with pytest.raises(
        AssertionError, match=rf"1 of 2 acknowledged .* lost:\n  p1-1 {topic}-0@1 b'lost' \(ok\)"
    ):
        ledger.assert_nothing_lost()


def test_outcomes(kafka: Cluster, ledger: Ledger, topic: str) -> None:
    """Refused for what it is: failed. An error that may follow a write: unknown, and in the topic or not."""
    producer = ledger.wrap(confluent(kafka, retries=0, **{"enable.idempotence": False}))
    faults = Faults(kafka)
    for error, after in (
        ("INVALID_RECORD", False),
        ("NOT_ENOUGH_REPLICAS", False),
        ("NOT_ENOUGH_REPLICAS", True),
    ):
        with faults.fail_next("Produce", error, after_append=after, topic=topic):
            producer.produce(topic, f"{error} {after}")
            producer.flush(60)
    with pytest.raises(Exception, match=r"too large|MSG_SIZE"):
        producer.produce(topic, b"x" * 10_000_000)
    assert [(send.outcome, send.error) for send in ledger.sends[:3]] == [
        (3, "INVALID_RECORD"),
        (4, "NOT_ENOUGH_REPLICAS"),
        (4, "NOT_ENOUGH_REPLICAS"),
    ]
    assert ledger.counts() == {"ok": 0, "failed": 2, "unknown": 2, "unsettled": 0}
    ledger.assert_nothing_lost()
    ledger.assert_exactly_once(["NOT_ENOUGH_REPLICAS True"])


def test_exactly_once(kafka: Cluster, ledger: Ledger, topic: str) -> None:
    producer = ledger.wrap(confluent(kafka))
    for value in ("a", "b", "b"):
        producer.produce(topic, value)
    ledger.assert_exactly_once(["b", "a", "b"])
    with pytest.raises(AssertionError, match="acknowledged, and missing from the result: 1 record:\n  p1-0"):
        ledger.assert_exactly_once(["b", "b"])
    with pytest.raises(AssertionError, match="in the result more often than sent: 1 value:\n  b'a'"):
        ledger.assert_exactly_once(["a", "a", "b", "b"])
    with pytest.raises(AssertionError, match="in the result, and never sent: 1 value:\n  b'c'"):
        ledger.assert_exactly_once(["a", "b", "b", "c"])


def test_order(kafka: Cluster, ledger: Ledger, topic: str) -> None:
    """A retry without idempotence, with two requests in flight, swaps two records."""
    sent: list[int] = [0]

    def heard(statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        sent[0] = sum(broker["req"].get("Produce", 0) for broker in brokers)

    unsafe = {"enable.idempotence": False, "linger.ms": 0, "retry.backoff.ms": 300}
    producer = ledger.wrap(confluent(kafka, **unsafe, **{"statistics.interval.ms": 20, "stats_cb": heard}))
    faults = Faults(kafka)
    with faults.hold("Produce", topic=topic) as held:
        for number, value in enumerate(("first", "second"), 1):
            producer.produce(topic, value)
            deadline = time.monotonic() + 60
            while sent[0] < number:
                assert time.monotonic() < deadline, f"request {number} is not sent"
                producer.flush(0.05)
        with faults.fail_next("Produce", "REQUEST_TIMED_OUT", topic=topic):
            held.release()
            producer.flush(60)
    ledger.assert_nothing_lost()
    with pytest.raises(AssertionError, match=rf"out of order: 1 record:\n  p1-0 at {topic}-0@1 after p1-1"):
        ledger.assert_order()


@pytest.mark.parametrize("lossy", [False, True])
def test_the_folder_is_evidence_for_an_audit(kafka: Cluster, ledger: Ledger, topic: str, lossy: bool) -> None:
    """Without a step in between, and with the same verdict."""
    producer = ledger.wrap(confluent(kafka))
    for number in range(20):
        producer.produce(topic, f"before {number}")
    producer.flush(60)
    faults = Faults(kafka)
    with faults.unclean_election(topic) if lossy else faults.kill(kafka.leader_of(topic)):
        for number in range(20):
            producer.produce(topic, f"meanwhile {number}")
        producer.flush(60)
    ledger.close(kafka.faults.history[-1:])
    assert Manifest.read(ledger.folder).state == "complete"
    verdict = audit(ledger.folder, engine="local", with_report=False).verdict
    assert verdict["counts"]["lost"]["violation"] == (20 if lossy else 0), verdict


def test_the_fixture_closes_it(pytester: pytest.Pytester) -> None:
    """After the faults were healed, in whatever order fixtures are named."""
    result = run(
        pytester,
        """
from pathlib import Path
from confluent_kafka import Producer

FOLDERS = []

def test_it(kafka_topic, kafka_faults, kafka_ledger, kafka_client_config):
    producer = kafka_ledger.wrap(Producer(kafka_client_config("confluent-kafka") | {"log_level": 0}))
    producer.produce(kafka_topic, "a")
    producer.flush(60)
    kafka_faults.kill(kafka_faults.leader_of(kafka_topic))
    FOLDERS.append(kafka_ledger.folder)

def test_its_folder_is_complete():
    (folder,) = FOLDERS
    names = sorted(path.name for path in (folder / "journal").glob("*.jsonl"))
    assert names == ["faults.jsonl", "ledger-p1.jsonl", "reads-final.jsonl"]
    assert '"kind":"kill"' in (folder / "journal" / "faults.jsonl").read_text()
""",
    )
    result.assert_outcomes(passed=2)
