"""Topics made, described, changed and deleted by every client that can."""

from __future__ import annotations

import pytest
from bench.processes import eventually
from tests.clients.conftest import Cluster, Topics
from tests.clients.drivers.admin import Admin, AioKafkaAdmin, ConfluentAdmin, KafkaPythonAdmin
from tests.clients.drivers.base import Outgoing, Refused
from tests.clients.drivers.confluent import Confluent

UNKNOWN_TOPIC, INVALID_TOPIC, TOPIC_EXISTS = 3, 17, 36
INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG = 37, 38, 39, 40
OFFSET_OUT_OF_RANGE = 1


@pytest.fixture(
    scope="module", params=[ConfluentAdmin, KafkaPythonAdmin, AioKafkaAdmin], ids=lambda kind: kind.name
)
def admin(request: pytest.FixtureRequest, cluster: Cluster) -> Admin:
    kind: type[Admin] = request.param
    return kind(cluster.bootstrap_servers)


def refused(code: int) -> pytest.RaisesExc[Refused]:
    return pytest.RaisesExc(Refused, check=lambda error: error.code == code)


def test_a_topic_from_birth_to_death(admin: Admin, topics: Topics, cluster: Cluster) -> None:
    """A topic exists with the partitions, replicas and settings asked for, takes records, grows, and goes."""
    name, everyone = topics.name(), {number for number, _, _ in admin.brokers()}
    admin.create(name, 2, 3, {"retention.ms": "1234567"})
    topics.wait_until_known(name, 2)
    assert name in admin.topics()
    described = admin.describe(name)
    assert set(described) == {0, 1}
    for partition in described.values():
        assert set(partition.replicas) == everyone
        assert partition.isr == everyone
        assert partition.leader == partition.replicas[0]
    assert admin.config(name)["retention.ms"] == "1234567"

    admin.add_partitions(name, 4)
    topics.wait_until_known(name, 4)
    assert set(admin.describe(name)) == {0, 1, 2, 3}
    assert Confluent(cluster.bootstrap_servers).produce(name, [Outgoing(b"new", partition=3)]) == [0]

    admin.delete(name)
    eventually(lambda: name not in admin.topics(), f"{name} is gone")


def test_replicas_as_assigned(admin: Admin, topics: Topics) -> None:
    """The creator of a topic may say which brokers hold it; the first of them leads."""
    first, second, third = sorted(number for number, _, _ in admin.brokers())
    assignment = [[third, first], [second, third], [first, second]]
    name = topics.name()
    with refused(INVALID_REPLICA_ASSIGNMENT):
        admin.create_assigned(name, [[first, second], [third]])
    with refused(INVALID_REPLICA_ASSIGNMENT):
        admin.create_assigned(name, [[first, first]])
    admin.create_assigned(name, assignment)
    topics.wait_until_known(name, 3)
    described = admin.describe(name)
    assert [list(described[number].replicas) for number in range(3)] == assignment
    assert [described[number].leader for number in range(3)] == [third, second, first]


def test_leaders_are_spread(admin: Admin, topics: Topics) -> None:
    """The partitions of one topic are led by different brokers, so that load is shared."""
    name = topics.name()
    admin.create(name, 6, 3)
    topics.wait_until_known(name, 6)
    leaders = [partition.leader for partition in admin.describe(name).values()]
    assert sorted(map(leaders.count, set(leaders))) == [2, 2, 2]


def test_what_cannot_be_created(admin: Admin, topics: Topics) -> None:
    """Each impossible wish has its own error, and leaves nothing behind."""
    existing = topics.new()
    with refused(TOPIC_EXISTS):
        admin.create(existing, 1, 1)
    for name in ("", ".", "..", "with space", "with/slash", "ü", "x" * 250):
        with refused(INVALID_TOPIC):
            admin.create(name, 1, 1)
    name = topics.name()
    with refused(INVALID_REPLICATION_FACTOR):
        admin.create(name, 1, 4)
    with refused(INVALID_REPLICATION_FACTOR):
        admin.create(name, 1, 0)
    with refused(INVALID_PARTITIONS):
        admin.create(name, 0, 1)
    with refused(INVALID_CONFIG):
        admin.create(name, 1, 1, {"no.such.setting": "1"})
    with refused(INVALID_CONFIG):
        admin.create(name, 1, 1, {"retention.ms": "soon"})
    assert name not in admin.topics()


def test_trying_out(admin: Admin, topics: Topics) -> None:
    """A creation that is only validated is refused where the real one would be, and creates nothing."""
    name = topics.name()
    admin.create(name, 3, 3, validate_only=True)
    with refused(INVALID_REPLICATION_FACTOR):
        admin.create(name, 3, 9, validate_only=True)
    assert name not in admin.topics()


def test_partitions_only_grow(admin: Admin, topics: Topics) -> None:
    """The number of partitions can neither shrink nor stay, nor grow for a topic that is not there."""
    name = topics.new(partitions=3)
    for total in (2, 3):
        with refused(INVALID_PARTITIONS):
            admin.add_partitions(name, total)
    with refused(UNKNOWN_TOPIC):
        admin.add_partitions(topics.name("absent"), 5)


def test_unknown_topics(admin: Admin, topics: Topics) -> None:
    """Deleting and configuring what does not exist is refused."""
    absent = topics.name("absent")
    with refused(UNKNOWN_TOPIC):
        admin.delete(absent)
    with refused(UNKNOWN_TOPIC):
        admin.set_config(absent, "retention.ms", "1")
    assert absent not in admin.topics()


def test_settings(admin: Admin, topics: Topics) -> None:
    """A topic has Kafka's defaults until they are changed; what was changed is seen, nonsense refused."""
    name = topics.new()
    config = admin.config(name)
    expected = {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "max.message.bytes": "1048588",
        "message.timestamp.type": "CreateTime",
        "retention.bytes": "-1",
        "retention.ms": "604800000",
        "segment.bytes": "1073741824",
        "unclean.leader.election.enable": "false",
    }
    assert {key: config.get(key) for key in expected} == expected
    admin.set_config(name, "retention.ms", "99000")
    eventually(lambda: admin.config(name)["retention.ms"] == "99000", "the new value is seen")
    with refused(INVALID_CONFIG):
        admin.set_config(name, "retention.ms", "soon")
    with refused(INVALID_CONFIG):
        admin.set_config(name, "no.such.setting", "1")
    assert admin.config(name)["retention.ms"] == "99000"


def test_settings_take_effect(admin: Admin, topics: Topics, cluster: Cluster) -> None:
    """A limit that is lowered while the topic is in use counts from then on."""
    name, client = topics.new(), Confluent(cluster.bootstrap_servers)
    client.produce(name, [Outgoing(bytes(5_000))])
    admin.set_config(name, "max.message.bytes", "1000")

    def is_refused() -> bool:
        try:
            client.produce(name, [Outgoing(bytes(5_000))])
        except Refused as refusal:
            return refusal.code == 10
        return False

    eventually(is_refused, "the new limit counts")


def test_delete_records(admin: Admin, topics: Topics, cluster: Cluster) -> None:
    """Records before an offset go; the rest stays where it was; beyond the end is refused."""
    name, client = topics.new(), Confluent(cluster.bootstrap_servers)
    client.produce(name, [Outgoing(b"%d" % number) for number in range(10)])
    assert admin.delete_records(name, 4) == 4
    assert client.watermarks(name) == (4, 10)
    assert [each.value for each in client.read(name, 4, 6)] == [b"%d" % number for number in range(4, 10)]
    with client.reader(name, {0: 2}, reset="earliest") as reader:
        assert reader.read(1)[0].offset == 4
    with refused(OFFSET_OUT_OF_RANGE):
        admin.delete_records(name, 11)
    assert admin.delete_records(name, -1) == 10  # -1: everything that is committed
    assert client.watermarks(name) == (10, 10)
    assert client.produce(name, [Outgoing(b"next")]) == [10]


def test_the_cluster(admin: Admin, cluster: Cluster) -> None:
    """Every broker is listed at the address that clients use, and one of them is the controller."""
    brokers = admin.brokers()
    assert {(host, port) for _, host, port in brokers} == set(cluster.brokers)
    assert admin.controller() in {number for number, _, _ in brokers}
