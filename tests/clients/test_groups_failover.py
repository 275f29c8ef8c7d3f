"""The coordinator of a group dies without a word: no acknowledged commit is lost, and its members stay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import pytest
from bench.processes import PATIENCE_SECONDS
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.clients.drivers.confluent import quiet
from tests.groups.members import ConfluentMember, eventually, share_evenly

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.kafka_client.blocking import Client
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest

pytestmark = pytest.mark.slow

TOPIC = "work"
PARTITIONS = 2
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "zookeeper.session.timeout.ms": "1500",
    "group.min.session.timeout.ms": "500",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("groups") / "data"
    with Cluster(ClusterSpec(settings=SETTINGS), folder) as running:
        admin = AdminClient(quiet(running.bootstrap_servers))
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(PATIENCE_SECONDS)
        producer = Producer(quiet(running.bootstrap_servers))
        for number in range(10):
            producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(PATIENCE_SECONDS) == 0
        yield running


def coordinator(cluster: Cluster, group: str) -> int:
    found: list[int] = []

    def ask() -> bool:
        with Client.to(cluster.bootstrap_servers) as client:
            request = FindCoordinatorRequest(coordinator_keys=[group])
            (answer,) = client.ask(Api.FIND_COORDINATOR, request).coordinators
        if answer.error_code == ErrorCode.NONE:
            found.append(answer.node_id)
        return bool(found)

    eventually(ask)
    return found[0]


class Commits:
    """A consumer that commits ever larger positions and knows which were acknowledged."""

    def __init__(self, servers: str, group: str) -> None:
        settings = {**quiet(servers), "group.id": group, "enable.auto.commit": False}
        self._consumer = Consumer(settings)
        self.acknowledged = 0
        self.attempted = 0

    def attempt(self) -> bool:
        self.attempted += 1
        try:
            offsets = [TopicPartition(TOPIC, number, self.attempted) for number in range(PARTITIONS)]
            done = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return False
        if any(each.error for each in done or []):
            return False
        self.acknowledged = self.attempted
        return True

    def reach(self, count: int) -> None:
        for _ in range(count):
            eventually(self.attempt)

    def check(self) -> None:
        """What is written down is at least what was acknowledged, and nothing that no client tried."""
        found: list[int] = []

        def read() -> bool:
            wanted = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
            try:
                found[:] = [
                    each.offset for each in self._consumer.committed(wanted, timeout=PATIENCE_SECONDS)
                ]
            except KafkaException:
                return False  # librdkafka gives up on a coordinator that has just died; ask again
            return True

        eventually(read)
        assert all(self.acknowledged <= offset <= self.attempted for offset in found)

    def close(self) -> None:
        self._consumer.close()


def test_no_acknowledged_commit_is_lost(cluster: Cluster) -> None:
    """kill -9 of the coordinator in the midst of commits, and of the next one after that: whatever was
    acknowledged is found, at whichever broker coordinates then."""
    group = "committing"
    with closing(Commits(cluster.bootstrap_servers, group)) as commits:
        for _ in range(2):
            commits.reach(20)
            victim = coordinator(cluster, group)
            cluster.kill(victim)
            commits.reach(20)
            assert coordinator(cluster, group) != victim
            commits.check()
            cluster.start_broker(victim)
        commits.check()


def test_members_stay_members(cluster: Cluster) -> None:
    """The next coordinator knows generation and assignment: the member commits without having to join
    again."""
    group = "staying"
    member = ConfluentMember(cluster.bootstrap_servers, group, TOPIC, session_timeout_ms=30_000)
    with closing(member):
        eventually(lambda: len(set(member.records)) == 10, [member])
        victim = coordinator(cluster, group)
        before = member.rebalances
        cluster.kill(victim)
        member.commit()
        assert member.partitions() == set(range(PARTITIONS))
        assert member.rebalances == before
        cluster.start_broker(victim)


def test_a_rebalance_outlives_its_coordinator(cluster: Cluster) -> None:
    """Killed while the group waits for a member to join again: with the next coordinator the two share, and
    commit."""
    group, servers = "rebalancing", cluster.bootstrap_servers
    admin = AdminClient(quiet(servers))
    with closing(ConfluentMember(servers, group, TOPIC, session_timeout_ms=30_000)) as first:
        eventually(lambda: len(first.partitions()) == PARTITIONS, [first])
        with closing(ConfluentMember(servers, group, TOPIC, session_timeout_ms=30_000)) as second:
            # The first one is not polled, so it gives nothing up, and the group waits for it.
            eventually(lambda: state(admin, group) is ConsumerGroupState.PREPARING_REBALANCING, [second])
            victim = coordinator(cluster, group)
            cluster.kill(victim)
            both = [first, second]
            eventually(lambda: share_evenly(both, PARTITIONS), both)
            eventually(lambda: len({*first.records, *second.records}) == 10, both)
            for member in both:
                member.commit()
            cluster.start_broker(victim)


def state(admin: AdminClient, group: str) -> ConsumerGroupState | None:
    try:
        return admin.describe_consumer_groups([group])[group].result(PATIENCE_SECONDS).state
    except KafkaException:
        return None


def test_positions_survive_all_brokers(cluster: Cluster) -> None:
    """kill -9 of every broker at once: after their return the positions are read from their disks."""
    with closing(Commits(cluster.bootstrap_servers, "surviving")) as commits:
        commits.reach(5)
        for broker in cluster.brokers:
            cluster.kill(broker.id)
        for broker in cluster.brokers:
            cluster.start_broker(broker.id)
        commits.check()
        commits.reach(1)


def test_what_coordinators_expose(cluster: Cluster) -> None:
    """A group with a member that has committed is in the figures of exactly one broker."""
    group = "counted"
    with closing(ConfluentMember(cluster.bootstrap_servers, group, TOPIC)) as member:
        eventually(lambda: len(set(member.records)) == 10, [member])
        before = figures(cluster, "tidelog_offset_commits_total")
        member.commit()
        assert figures(cluster, "tidelog_offset_commits_total") == before + 1
        assert figures(cluster, 'tidelog_groups{state="Stable"}') == 1
        assert figures(cluster, "tidelog_group_members") == 1
        assert figures(cluster, "tidelog_group_rebalances_total") >= 1
        assert figures(cluster, "tidelog_group_write_latency_seconds_count") >= 1


def figures(cluster: Cluster, name: str) -> float:
    """The sum of one sample over all brokers."""
    total = 0.0
    for broker in cluster.brokers:
        with urlopen(f"http://{broker.host}:{broker.metrics_port}/metrics", timeout=PATIENCE_SECONDS) as page:
            lines = page.read().decode().splitlines()
        total += sum(float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == name)
    return total


def test_positions_go_with_their_topic(cluster: Cluster) -> None:
    """A topic that is deleted and made again has no positions from before."""
    admin = AdminClient(quiet(cluster.bootstrap_servers))
    settings = {**quiet(cluster.bootstrap_servers), "group.id": "forgetting", "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:

        def commit() -> bool:
            try:
                consumer.commit(offsets=[TopicPartition("fleeting", 0, 5)], asynchronous=False)
            except KafkaException:
                return False  # the coordinator has not heard of the topic yet
            return True

        def forgotten() -> bool:
            return bool(
                consumer.committed([TopicPartition("fleeting", 0)], timeout=PATIENCE_SECONDS)[0].offset < 0
            )

        admin.create_topics([NewTopic("fleeting", 1, 3)])["fleeting"].result(PATIENCE_SECONDS)
        eventually(commit)
        assert not forgotten()
        admin.delete_topics(["fleeting"], operation_timeout=30)["fleeting"].result(PATIENCE_SECONDS)
        eventually(forgotten)


def test_nobody_else_touches_the_topic(cluster: Cluster) -> None:
    """Records of clients are refused, and so is a number of partitions that would move all groups."""
    coordinator(cluster, "any")
    refused: list[int] = []
    producer = Producer(quiet(cluster.bootstrap_servers))

    def told(error: KafkaError | None, _message: Message) -> None:
        refused.append(0 if error is None else error.code())

    producer.produce("__consumer_offsets", b"junk", b"\0\1", partition=0, on_delivery=told)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert refused == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    admin = AdminClient(quiet(cluster.bootstrap_servers))
    more = admin.create_partitions([NewPartitions("__consumer_offsets", 9)])["__consumer_offsets"]
    with pytest.raises(KafkaException, match="cannot change"):
        more.result(PATIENCE_SECONDS)


def test_a_dead_member_is_noticed(cluster: Cluster) -> None:
    """A member that stops sending heartbeats is gone after its session, and another has its partitions."""
    group = "dying"
    settings = {"session_timeout_ms": 1_000, "heartbeat_interval_ms": 100}
    dying = ConfluentMember(cluster.bootstrap_servers, group, TOPIC, max_poll_interval_ms=1_000, **settings)
    eventually(lambda: len(dying.partitions()) == PARTITIONS, [dying])
    with closing(ConfluentMember(cluster.bootstrap_servers, group, TOPIC, **settings)) as heir:
        eventually(lambda: len(heir.partitions()) == PARTITIONS, [heir])
    dying.close()
