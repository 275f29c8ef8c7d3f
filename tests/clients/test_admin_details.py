"""What only some clients can ask for: incremental settings, elections, log folders; and unasked topics."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import kafka  # type: ignore[import-untyped]
import pytest
from bench.apache_kafka import run_tool
from bench.processes import PATIENCE_SECONDS, eventually
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)
from tests.clients import raw
from tests.clients.conftest import Cluster, Topics
from tests.clients.drivers.admin import KafkaPythonAdmin
from tests.clients.drivers.base import Driver, Outgoing
from tests.clients.drivers.confluent import Confluent, quiet

from tidelog.kafka_client.blocking import Client
from tidelog.wire.api import Api
from tidelog.wire.messages.describe_acls import DescribeAclsRequest


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient(quiet(cluster.bootstrap_servers))


def only(answers: dict[Any, Future[Any]]) -> Any:
    (answer,) = answers.values()
    return answer.result(PATIENCE_SECONDS)


def entries(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    found: dict[str, ConfigEntry] = only(admin.describe_configs([ConfigResource(kind, name)]))
    return found


def change(admin: AdminClient, topic: str, key: str, operation: AlterConfigOpType, value: str | None) -> None:
    entry = ConfigEntry(key, value or "", incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    only(admin.incremental_alter_configs([resource]))


def test_settings_change_one_by_one(admin: AdminClient, topics: Topics) -> None:
    """Set, append, subtract and delete touch one setting; where a value comes from is told."""
    topic = topics.new(retention_ms=5_000_000)

    def is_now(key: str, value: str, source: ConfigSource) -> None:
        def seen() -> bool:
            entry = entries(admin, ResourceType.TOPIC, topic)[key]
            return (entry.value, ConfigSource(entry.source)) == (value, source)

        eventually(seen, f"{key} is {value}, {source}")

    mine, default = ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DEFAULT_CONFIG
    is_now("cleanup.policy", "delete", default)
    change(admin, topic, "cleanup.policy", AlterConfigOpType.APPEND, "compact")
    is_now("cleanup.policy", "delete,compact", mine)
    change(admin, topic, "cleanup.policy", AlterConfigOpType.SUBTRACT, "delete")
    is_now("cleanup.policy", "compact", mine)
    change(admin, topic, "cleanup.policy", AlterConfigOpType.DELETE, None)
    is_now("cleanup.policy", "delete", default)
    is_now("retention.ms", "5000000", mine)


def test_settings_replaced_as_a_whole(admin: AdminClient, topics: Topics) -> None:
    """The older way to change settings drops whatever it does not name."""
    topic = topics.new(retention_ms=5_000_000, max_message_bytes=2_000_000)
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"max.message.bytes": "3000000"})
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        answers = admin.alter_configs([resource])
    only(answers)

    def seen() -> bool:
        found = entries(admin, ResourceType.TOPIC, topic)
        return (found["max.message.bytes"].value, found["retention.ms"].value) == ("3000000", "604800000")

    eventually(seen, "one setting changed, the other back at its default")


RATE = "leader.replication.throttled.rate"


def test_settings_of_a_running_broker(admin: AdminClient) -> None:
    """A rate can be set at run time; what the broker has from its file is refused, and is read-only."""

    def changed(key: str, operation: AlterConfigOpType, value: str = "") -> None:
        entry = ConfigEntry(key, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        only(admin.incremental_alter_configs([resource]))

    def is_now(value: str, source: ConfigSource) -> bool:
        entry = entries(admin, ResourceType.BROKER, "1").get(RATE)
        return entry is not None and (entry.value, ConfigSource(entry.source)) == (value, source)

    changed(RATE, AlterConfigOpType.SET, "12345")
    eventually(lambda: is_now("12345", ConfigSource.DYNAMIC_BROKER_CONFIG), "the rate is set")
    assert not entries(admin, ResourceType.BROKER, "1")[RATE].is_read_only
    with pytest.raises(KafkaException) as refused:
        changed("log.dirs", AlterConfigOpType.SET, "/elsewhere")
    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
    assert entries(admin, ResourceType.BROKER, "1")["log.dirs"].is_read_only
    changed(RATE, AlterConfigOpType.DELETE)
    eventually(lambda: not is_now("12345", ConfigSource.DYNAMIC_BROKER_CONFIG), "the rate is no longer set")


@pytest.mark.slow
def test_kafkas_tool_sets_a_rate_for_every_broker(admin: AdminClient, cluster: Cluster) -> None:
    """And a broker's own, which wins."""

    def tool(*arguments: str) -> str:
        brokers = ("--bootstrap-server", cluster.bootstrap_servers, "--entity-type", "brokers")
        return run_tool("kafka.admin.ConfigCommand", *brokers, *arguments)

    def rates() -> list[tuple[str | None, ConfigSource]]:
        found = [entries(admin, ResourceType.BROKER, name).get(RATE) for name in ("1", "2")]
        return [(entry.value, ConfigSource(entry.source)) for entry in found if entry is not None]

    every, first = ("--entity-default",), ("--entity-name", "1")
    tool("--alter", *every, "--add-config", f"{RATE}=777")
    tool("--alter", *first, "--add-config", f"{RATE}=888")
    own, common = ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    eventually(lambda: rates() == [("888", own), ("777", common)], "both are set")
    assert f"{RATE}=777" in tool("--describe", *every)
    for whose in (every, first):
        tool("--alter", *whose, "--delete-config", RATE)
    eventually(lambda: not {source for _, source in rates()} & {own, common}, "none is set any more")


def test_settings_tried_out(admin: AdminClient, topics: Topics) -> None:
    """A change that is only validated changes nothing, and is refused where the real one would be."""
    topic = topics.new()

    def attempt(value: str) -> None:
        entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        only(admin.incremental_alter_configs([resource], validate_only=True))

    attempt("1000")
    with pytest.raises(KafkaException) as refused:
        attempt("soon")
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    assert entries(admin, ResourceType.TOPIC, topic)["retention.ms"].value == "604800000"


def test_broker_settings(admin: AdminClient) -> None:
    """Every broker tells its settings, and which of them only a restart can change."""
    for number in admin.list_topics(timeout=PATIENCE_SECONDS).brokers:
        found = entries(admin, ResourceType.BROKER, str(number))
        assert found["message.max.bytes"].value == "1048588"
        assert found["log.dirs"].is_read_only


def test_access_rules_are_off(admin: AdminClient, cluster: Cluster) -> None:
    """A client that asks for them, adds or removes some gets SECURITY_DISABLED. Tools understand it."""
    any_topic = (ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:me", "*")
    allowed = (AclOperation.READ, AclPermissionType.ALLOW)
    for answer in (
        *admin.create_acls([AclBinding(*any_topic, *allowed)]).values(),
        *admin.delete_acls([AclBindingFilter(*any_topic, *allowed)]).values(),
    ):
        with pytest.raises(KafkaException) as refused:
            answer.result(PATIENCE_SECONDS)
        assert refused.value.args[0].code() == KafkaError.SECURITY_DISABLED
        assert "No Authorizer is configured" in refused.value.args[0].str()
    request = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    with Client.to(cluster.bootstrap_servers) as client:  # confluent-kafka takes the answer for an empty list
        answer = client.ask(Api.DESCRIBE_ACLS, request)
    assert (answer.error_code, answer.resources) == (KafkaError.SECURITY_DISABLED, [])


def test_descriptions(admin: AdminClient, topics: Topics, cluster: Cluster) -> None:
    """The described topic and cluster are those that the metadata shows."""
    topic = topics.new(partitions=2)
    described = only(admin.describe_topics(TopicCollection([topic])))
    assert described.name == topic
    assert not described.is_internal
    assert [(each.id, len(each.replicas), len(each.isr)) for each in described.partitions] == [
        (number, 3, 3) for number in range(2)
    ]
    whole = admin.describe_cluster().result(PATIENCE_SECONDS)
    assert {(node.host, node.port) for node in whole.nodes} == set(cluster.brokers)
    assert whole.cluster_id
    with pytest.raises(KafkaException) as refused:
        only(admin.describe_topics(TopicCollection([topics.name("absent")])))
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_offsets_by_kind(admin: AdminClient, topics: Topics, cluster: Cluster) -> None:
    """First, last and youngest offset, and the offset for a time, as the admin client asks for them."""
    topic = topics.new(retention_ms=-1)
    times = [1_600_000_000_000 + 1000 * number for number in (0, 5, 3)]
    Confluent(cluster.bootstrap_servers).produce(topic, [Outgoing(b"x", timestamp_ms=time) for time in times])

    def offset(kind: OffsetSpec) -> int:
        return int(only(admin.list_offsets({TopicPartition(topic, 0): kind})).offset)

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 3
    assert offset(OffsetSpec.max_timestamp()) == 1
    assert offset(OffsetSpec.for_timestamp(times[2])) == 1


def test_preferred_election(admin: AdminClient, topics: Topics) -> None:
    """Where the preferred replica leads already there is nothing to elect; what does not exist is named."""
    here, absent = TopicPartition(topics.new(), 0), TopicPartition(topics.name("absent"), 0)
    answer = admin.elect_leaders(ElectionType.PREFERRED, [here, absent]).result(PATIENCE_SECONDS)
    codes = {where.topic: error.code() for where, error in answer.items()}
    assert codes == {
        here.topic: KafkaError.ELECTION_NOT_NEEDED,
        absent.topic: KafkaError.UNKNOWN_TOPIC_OR_PART,
    }


def test_log_folders(topics: Topics, cluster: Cluster) -> None:
    """Each broker tells where it keeps a partition and how large it is: all replicas the same."""
    topic = topics.new()
    Confluent(cluster.bootstrap_servers).produce(topic, [Outgoing(bytes(1_000)) for _ in range(10)])
    with KafkaPythonAdmin(cluster.bootstrap_servers).connected() as admin:

        def sizes() -> list[int]:
            return [
                partition["partition_size"]
                for broker in admin.describe_log_dirs([topic])
                for folder in broker["log_dirs"]
                for described in folder["topics"]
                for partition in described["partitions"]
            ]

        eventually(lambda: len(sizes()) == 3 and len(set(sizes())) == 1, "all replicas of one size")
        assert sizes()[0] > 10_000


def test_topics_appear_when_written_to(client: Driver, topics: Topics) -> None:
    """A topic that was not created appears with its first record."""
    topic = topics.name("appears")
    assert client.produce(topic, [Outgoing(b"first")]) == [0]
    assert [each.value for each in client.read(topic, 0, 1)] == [b"first"]


def test_asking_does_not_create(topics: Topics, cluster: Cluster, admin: AdminClient) -> None:
    """Metadata asked for without the wish to create leaves no topic behind."""
    topic = topics.name("asked-for")
    for broker in cluster.brokers:
        assert raw.metadata(broker, topic).leaders == {}
    assert topic not in admin.list_topics(timeout=PATIENCE_SECONDS).topics


def test_everything_is_allowed(admin: AdminClient, topics: Topics) -> None:
    """Every operation is listed as allowed, as in a Kafka without an authorizer."""
    topic = topics.new()
    described = only(admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True))
    assert {each.name for each in described.authorized_operations} == {
        *("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
    }
    cluster = admin.describe_cluster(include_authorized_operations=True).result(PATIENCE_SECONDS)
    assert {each.name for each in cluster.authorized_operations} == {
        *("CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
        *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"),
    }
    positions = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 0)])
    only(admin.alter_consumer_group_offsets([positions]))
    group = only(admin.describe_consumer_groups([topic], include_authorized_operations=True))
    assert {each.name for each in group.authorized_operations} == {"READ", "DESCRIBE", "DELETE"}
    assert only(admin.describe_consumer_groups([topic])).authorized_operations is None


def test_settings_have_types(cluster: Cluster) -> None:
    """Of a broker as of a topic: tools that show or check values go by them."""
    resource = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.BROKER, "1")
    with KafkaPythonAdmin(cluster.bootstrap_servers).connected() as admin:
        found = admin.describe_configs([resource], config_filter="all")["broker"]["1"]
    types = {name: entry["config_type"] for name, entry in found.items()}
    assert types["advertised.listeners"] == "STRING"
    assert types["num.partitions"] == "INT"
    assert types["log.retention.ms"] == "LONG"
    assert types["delete.topic.enable"] == "BOOLEAN"
    assert types["log.cleanup.policy"] == "LIST"
    assert set(types.values()) == {"STRING", "INT", "LONG", "BOOLEAN", "DOUBLE", "LIST"}
