"""Requests that once did harm: each is answered or its connection closed, and no broker says a word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.running import Lines, create, without_tracebacks

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.kafka_client.blocking import Client
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.vote import VoteRequest

pytestmark = pytest.mark.slow

TOPIC = "subject"
LONG = "x" * 32_767
"""The longest text that a version which is not flexible can carry."""
OF_TOPIC, OF_BROKER = 2, 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    lines = Lines()
    with Cluster(ClusterSpec(brokers=1), tmp_path_factory.mktemp("found"), on_line=lines) as running:
        create(running, TOPIC)
        yield running
    without_tracebacks(line for _, line in lines.said)


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    (broker,) = cluster.brokers
    with Client(broker.host, broker.port) as connected:
        yield connected


# Each with where its only result is.
TOO_LONG_TO_QUOTE = [
    (
        *(Api.CREATE_TOPICS, 4, "topics"),
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="new",
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[-1] * 20_000)],
                    configs=[],
                )
            ]
        ),
    ),
    (
        *(Api.INCREMENTAL_ALTER_CONFIGS, 0, "responses"),
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=OF_TOPIC,
                    resource_name=TOPIC,
                    configs=[AlterableConfig(name=LONG, config_operation=7, value=None)],
                )
            ],
            validate_only=True,
        ),
    ),
    (
        *(Api.DESCRIBE_CONFIGS, 1, "results"),
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=OF_BROKER, resource_name=LONG, configuration_keys=None)
            ]
        ),
    ),
    (
        *(Api.CREATE_PARTITIONS, 1, "results"),
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=LONG, count=2, assignments=None)],
            timeout_ms=1_000,
            validate_only=True,
        ),
    ),
]


@pytest.mark.parametrize(
    ("api", "version", "results", "request_"), TOO_LONG_TO_QUOTE, ids=lambda value: getattr(value, "name", "")
)
def test_what_is_too_long_to_be_quoted_is_refused_in_words(
    client: Client, api: Api, version: int, results: str, request_: Any
) -> None:
    """An error message quotes what was wrong; quoted in full it did not fit the answer, which never came."""
    (result,) = getattr(client.exchange(api, version, request_), results)
    assert result.error_code != ErrorCode.NONE
    assert 0 < len(result.error_message) < 2_000


def test_a_vote_that_is_refused_makes_no_log(client: Client, cluster: Cluster) -> None:
    """Whatever partition it names: one of a deposed controller, or of no controller, leaves no trace."""
    answer = client.exchange(
        Api.VOTE,
        0,
        VoteRequest(
            controller_id=1,
            controller_epoch=0,
            broker_epoch=1 << 40,
            topic_name="elsewhere",
            partition_index=-1,
            leader_epoch=5,
        ),
    )
    assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert not list(Path(cluster.brokers[0].data_dir).glob("elsewhere*"))
