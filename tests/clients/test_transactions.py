"""Transactions are not served yet: a client that wants one gets an error at once, and does not retry."""

from __future__ import annotations

import asyncio

import aiokafka  # type: ignore[import-untyped]
import kafka  # type: ignore[import-untyped]
import pytest
from aiokafka.errors import KafkaError as AioKafkaError  # type: ignore[import-untyped]
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka.errors import KafkaError as KafkaPythonError  # type: ignore[import-untyped]
from tests.against import Against
from tests.clients.conftest import Cluster
from tests.clients.drivers.confluent import quiet

from tidelog.kafka_client.blocking import Client
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest

PATIENCE_SECONDS = 30
WORDS = "tidelog does not serve transactions yet"
TRANSACTION = 1


@pytest.fixture(autouse=True)
def not_kafka(against: Against) -> None:
    if against.kafka:
        pytest.skip("Apache Kafka serves them")


def test_librdkafka(cluster: Cluster) -> None:
    """Fatal, in our words."""
    producer = Producer(quiet(cluster.bootstrap_servers) | {"transactional.id": "t"})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(PATIENCE_SECONDS)
    error: KafkaError = refused.value.args[0]
    assert error.fatal()
    assert WORDS in error.str()


def test_kafka_python(cluster: Cluster) -> None:
    """It names the error, and keeps the words to itself."""
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        transactional_id="t",
        max_block_ms=PATIENCE_SECONDS * 1000,
    )
    with pytest.raises(KafkaPythonError, match="UnsupportedVersion"):
        producer.init_transactions()
    producer.close(timeout=0)


def test_aiokafka(cluster: Cluster) -> None:
    """It speaks an older version, and gets the error that clients of that version take for final."""

    async def start() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id="t"
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(AioKafkaError, match="ClusterAuthorizationFailed"):
                await producer.start()
            await producer.stop()

    asyncio.run(start())


def test_every_version_says_why(cluster: Cluster) -> None:
    """Java clients and librdkafka show the words, so they come in every version that can hold them."""
    with Client.to(cluster.bootstrap_servers) as client:
        for version in range(1, 5):
            request = FindCoordinatorRequest(key="t", coordinator_keys=["t"], key_type=TRANSACTION)
            answer = client.exchange(Api.FIND_COORDINATOR, version, request)
            if version >= 4:
                (answer,) = answer.coordinators
            assert answer.error_code == (
                ErrorCode.UNSUPPORTED_VERSION if version >= 4 else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            )
            assert not ErrorCode(answer.error_code).retriable
            assert answer.error_message.startswith(WORDS)
        wanted = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1_000)
        assert client.ask(Api.INIT_PRODUCER_ID, wanted).error_code == ErrorCode.UNSUPPORTED_VERSION
