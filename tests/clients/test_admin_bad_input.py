"""What no well-behaved administrator asks for: each request gets an error code, and the cluster goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bench.processes import eventually
from tests.clients import raw
from tests.clients.conftest import Cluster, Topics
from tests.clients.raw import Connection

from tidelog.kafka_client.blocking import Client
from tidelog.wire.api import Api
from tidelog.wire.codec import encode
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    elect_leaders,
    metadata,
)
from tidelog.wire.schema import NO_UUID

INT_MAX = 2**31 - 1
TOO_MANY = ErrorCode.POLICY_VIOLATION


@pytest.fixture(scope="module")
def controller(cluster: Cluster) -> Iterator[Client]:
    """A connection to the controller, to be asked what it must refuse."""
    with Client.to(cluster.bootstrap_servers) as anyone:
        known = anyone.metadata([])
    (at,) = (broker for broker in known.brokers if broker.node_id == known.controller_id)
    with Client(at.host, at.port, timeout_seconds=60) as client:
        yield client


def topic(
    name: str, partitions: int = -1, replicas: int = -1, by_hand: list[list[int]] | None = None
) -> create_topics.CreatableTopic:
    return create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            create_topics.CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in enumerate(by_hand or [])
        ],
        configs=[],
    )


def create(client: Client, *topics: create_topics.CreatableTopic, validate_only: bool = False) -> list[int]:
    """The error of each."""
    request = create_topics.CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return [result.error_code for result in client.ask(Api.CREATE_TOPICS, request).topics]


def extend(client: Client, counts: dict[str, int], *, validate_only: bool = False) -> list[int]:
    request = create_partitions.CreatePartitionsRequest(
        topics=[
            create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in counts.items()
        ],
        timeout_ms=30_000,
        validate_only=validate_only,
    )
    return [result.error_code for result in client.ask(Api.CREATE_PARTITIONS, request).results]


def exist(client: Client, *names: str) -> list[bool]:
    return [not found.error_code for found in client.metadata(names).topics]


@pytest.mark.parametrize("validate_only", [False, True], ids=["for-real", "to-validate"])
def test_more_partitions_than_a_request_may_create(
    controller: Client, topics: Topics, validate_only: bool
) -> None:
    """10,000 in all: the request is refused as a whole, at once, whichever way it asks for them."""
    one, other = topics.name(), topics.name()
    for asked in (
        [topic(one, INT_MAX, 1), topic(other, 1, 1)],
        [topic(one, INT_MAX, 32_767), topic(other)],
        [topic(one, 5_000, 1), topic(other, 5_001, 1)],
        [topic(one, by_hand=[[1]] * 10_001), topic(other)],
    ):
        assert create(controller, *asked, validate_only=validate_only) == [TOO_MANY, TOO_MANY]
    many = [topic(f"{one}-{number}") for number in range(10_001)]
    assert set(create(controller, *many, validate_only=validate_only)) == {TOO_MANY}
    assert exist(controller, one, other, f"{one}-0") == [False] * 3


@pytest.mark.parametrize("kind", [0, 1, 3, 4, 8, 99, -1])
def test_settings_of_unknown_things(controller: Client, kind: int) -> None:
    """INVALID_REQUEST, with few words about a name of any length."""
    asked = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name="x" * 32_767, configuration_keys=None
    )
    request = describe_configs.DescribeConfigsRequest(resources=[asked])
    (result,) = controller.ask(Api.DESCRIBE_CONFIGS, request).results
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert len(result.error_message) < 300


def test_more_partitions_than_a_request_may_add(controller: Client, topics: Topics) -> None:
    """The same bound counts what would be added; a topic that does not exist is named as such."""
    one, other = topics.new(), topics.new(partitions=2)
    assert extend(controller, {one: INT_MAX, other: 3}) == [TOO_MANY, TOO_MANY]
    assert extend(controller, {one: 5_001, other: 5_003}, validate_only=True) == [TOO_MANY, TOO_MANY]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert extend(controller, {topics.name(): INT_MAX}) == [unknown]
    assert extend(controller, {one: 2, other: 3}) == [ErrorCode.NONE, ErrorCode.NONE]


def test_a_topic_that_is_extended_twice_in_a_request(controller: Client, topics: Topics) -> None:
    """Which of the two counts would be meant?"""
    name = topics.new()
    part = create_partitions.CreatePartitionsTopic(name=name, count=2, assignments=None)
    request = create_partitions.CreatePartitionsRequest(
        topics=[part, part], timeout_ms=1_000, validate_only=False
    )
    answer = controller.ask(Api.CREATE_PARTITIONS, request)
    assert [(each.name, each.error_code) for each in answer.results] == [(name, ErrorCode.INVALID_REQUEST)]


def test_an_assignment_that_is_too_large_for_the_keeper(controller: Client, topics: Topics) -> None:
    """It is refused, and the controller goes on: it would wait for ever for the answer to a write that cannot
    be sent."""
    name, ordinary = topics.name(), topics.name()
    replicas = list(range(1_000_000, 1_000_000 + 32_767))
    assert create(controller, topic(name, by_hand=[replicas] * 20)) == [TOO_MANY]
    bad = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert create(controller, topic(name, by_hand=[[*replicas, 1]])) == [bad]
    assert create(controller, topic(ordinary, 1, 1)) == [ErrorCode.NONE]


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(topic("x" * 32_767, 1, 1), id="name"),
        pytest.param(topic("t", by_hand=[[7] * 40_000]), id="replicas"),
    ],
)
def test_refusals_quote_no_more_than_an_answer_can_hold(
    controller: Client, asked: create_topics.CreatableTopic
) -> None:
    """Up to version 4 a text has at most 32,767 bytes, also one that explains what is wrong with such a
    text."""
    request = create_topics.CreateTopicsRequest(topics=[asked], validate_only=True)
    with Connection((controller.endpoint.host, controller.endpoint.port)) as connection:
        fields = connection.ask(Api.CREATE_TOPICS, 4, encode(request, 4, False))
        assert (fields.int32(), fields.int32()) == (0, 1)
        assert fields.string() == asked.name
        assert fields.int16() in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
        assert len(fields.string() or "") < 1_000


def test_topics_that_are_deleted_by_their_ids(controller: Client, topics: Topics) -> None:
    """By id or by name; an id that no topic has, an id and a name, and neither of them are refused."""
    name, other, unknown = topics.new(), topics.new(), bytes(range(16))
    found = controller.metadata((name, other)).topics
    ids = {topic.name: topic.topic_id for topic in found}
    state = delete_topics.DeleteTopicState
    request = delete_topics.DeleteTopicsRequest(
        topics=[
            *(state(topic_id=unknown), state(name=name, topic_id=ids[name]), state()),
            *(state(name=name), state(topic_id=ids[other])),
        ],
        timeout_ms=10_000,
    )
    answer = controller.ask(Api.DELETE_TOPICS, request)
    assert NO_UUID not in ids.values()
    assert [(result.name, result.topic_id, result.error_code) for result in answer.responses] == [
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        (name, ids[name], ErrorCode.INVALID_REQUEST),
        (None, NO_UUID, ErrorCode.INVALID_REQUEST),
        (name, ids[name], ErrorCode.NONE),
        (other, ids[other], ErrorCode.NONE),
    ]


def test_a_topic_without_a_name_is_refused(controller: Client) -> None:
    """In versions whose answers need a name, too."""
    none = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=None)])
    for version in range(10, 14):
        (refused,) = controller.exchange(Api.METADATA, version, none).topics
        assert (refused.name, refused.error_code) == ("", ErrorCode.INVALID_REQUEST)
    empty = delete_topics.DeleteTopicsRequest(topic_names=[""], timeout_ms=10_000)
    (refused,) = controller.exchange(Api.DELETE_TOPICS, 2, empty).responses
    assert (refused.name, refused.error_code) == ("", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("kind", [2, -1, 127])
def test_elections_of_an_unknown_kind(controller: Client, topics: Topics, kind: int) -> None:
    """INVALID_REQUEST, for the request and for each partition that it names."""
    name, invalid = topics.new(), ErrorCode.INVALID_REQUEST
    for asked in ([elect_leaders.TopicPartitions(topic=name, partitions=[0, 7])], [], None):
        request = elect_leaders.ElectLeadersRequest(election_type=kind, topic_partitions=asked)
        answer = controller.ask(Api.ELECT_LEADERS, request)
        assert answer.error_code == invalid
        found = [part for topic in answer.replica_election_results for part in topic.partition_result]
        assert [(part.partition_id, part.error_code) for part in found] == (
            [(0, invalid), (7, invalid)] if asked else []
        )


def test_asking_for_a_hundred_thousand_topics_creates_none(controller: Client, topics: Topics) -> None:
    """Naming topics creates them, but not that many in one go; one is created as ever."""
    name = topics.name()
    many = [metadata.MetadataRequestTopic(name=f"{name}-{number}") for number in range(100_000)]
    answer = controller.ask(Api.METADATA, metadata.MetadataRequest(topics=many))
    assert {found.error_code for found in answer.topics} == {ErrorCode.POLICY_VIOLATION}
    assert exist(controller, f"{name}-0", f"{name}-99999") == [False, False]
    wanted = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)])
    eventually(lambda: not controller.ask(Api.METADATA, wanted).topics[0].error_code, "it is created")
    assert raw.metadata((controller.endpoint.host, controller.endpoint.port), name).leaders
