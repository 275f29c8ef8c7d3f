"""Consumer groups of real clients together, and their administration. What each client can do alone is in
`test_matrix`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from bench.processes import PATIENCE_SECONDS
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient  # type: ignore[import-untyped]
from kafka import TopicPartition as KafkaPythonPartition
from tests.clients.conftest import Cluster, Topics
from tests.clients.drivers.base import Outgoing
from tests.clients.drivers.confluent import Confluent, quiet
from tests.groups.members import (
    AioKafkaMember,
    ConfluentMember,
    KafkaPythonMember,
    Member,
    eventually,
    share_evenly,
)

PARTITIONS = 4
RECORDS = 40


@pytest.fixture(scope="module")
def topic(topics: Topics, cluster: Cluster) -> str:
    """Four partitions with ten records each, numbered throughout."""
    name = topics.new(partitions=PARTITIONS)
    records = [Outgoing(b"%d" % number, partition=number % PARTITIONS) for number in range(RECORDS)]
    Confluent(cluster.bootstrap_servers).produce(name, records)
    return name


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient(quiet(cluster.bootstrap_servers))


@pytest.fixture
def closing_all() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_clients_of_different_making(
    cluster: Cluster, topic: str, group: str, closing_all: ExitStack
) -> None:
    """Three libraries in one group agree on an assignor that all of them know, and on an assignment."""
    members: list[Member] = []
    for kind in (AioKafkaMember, ConfluentMember, KafkaPythonMember):
        member = kind(cluster.bootstrap_servers, group, topic)
        members.append(closing_all.enter_context(closing(member)))
        eventually(lambda: share_evenly(members, PARTITIONS), members)


def test_positions_without_a_membership(cluster: Cluster, topic: str, group: str) -> None:
    """A consumer that assigns partitions to itself commits and finds its positions under a group's name."""
    settings = {**quiet(cluster.bootstrap_servers), "group.id": group, "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        wanted = [TopicPartition(topic, 0, 7, metadata="noted", leader_epoch=0), TopicPartition(topic, 2, 3)]
        consumer.commit(offsets=wanted, asynchronous=False)
    with closing(Consumer(settings)) as consumer:
        found = consumer.committed(
            [TopicPartition(topic, number) for number in range(3)], timeout=PATIENCE_SECONDS
        )
    assert [each.offset for each in found] == [7, -1001, 3]
    assert found[0].metadata == "noted"


def test_administration(admin: AdminClient, cluster: Cluster, topic: str, group: str) -> None:
    """Groups can be listed, described, reset and deleted; not while they have members."""
    member = ConfluentMember(cluster.bootstrap_servers, group, topic, client_id="someone")
    with closing(member):
        eventually(lambda: len(member.partitions()) == PARTITIONS, [member])
        listed = {each.group_id: each for each in admin.list_consumer_groups().result(PATIENCE_SECONDS).valid}
        assert listed[group].state == ConsumerGroupState.STABLE
        described = admin.describe_consumer_groups([group])[group].result(PATIENCE_SECONDS)
        assert described.state == ConsumerGroupState.STABLE
        assert [each.client_id for each in described.members] == ["someone"]
        assert len(described.members[0].assignment.topic_partitions) == PARTITIONS
        with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([group])[group].result(PATIENCE_SECONDS)
    reset = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 1, 5)])
    admin.alter_consumer_group_offsets([reset])[group].result(PATIENCE_SECONDS)
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(
        PATIENCE_SECONDS
    )
    assert [(each.partition, each.offset) for each in offsets.topic_partitions] == [(1, 5)]
    admin.delete_consumer_groups([group])[group].result(PATIENCE_SECONDS)
    assert group not in {
        each.group_id for each in admin.list_consumer_groups().result(PATIENCE_SECONDS).valid
    }


def test_administration_by_kafka_python(admin: AdminClient, cluster: Cluster, topic: str, group: str) -> None:
    """Another library's view of the same: also single positions can be deleted."""
    reset = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, number, 5) for number in range(2)])
    admin.alter_consumer_group_offsets([reset])[group].result(PATIENCE_SECONDS)
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as other:
        assert group in str(other.list_groups())
        assert "Empty" in str(other.describe_groups([group]))
        other.delete_group_offsets(group, [KafkaPythonPartition(topic, 1)])
        assert {each.partition for each in other.list_group_offsets(group)[group]} == {0}
        other.delete_groups([group])
        assert group not in str(other.list_groups())


def test_the_topic_is_internal(cluster: Cluster, admin: AdminClient, topic: str, group: str) -> None:
    """Positions are in a compacted topic that clients know to be none of theirs."""
    test_positions_without_a_membership(cluster, topic, group)
    found = admin.list_topics(timeout=PATIENCE_SECONDS).topics["__consumer_offsets"]
    replicas = {len(partition.replicas) for partition in found.partitions.values()}
    assert replicas == {min(3, len(cluster.brokers))}
