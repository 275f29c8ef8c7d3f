"""A real cluster behind the switchboard: real clients, real elections, faults from outside."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from bench.processes import PATIENCE_SECONDS
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.broker.running import QUIET, eventually

from tidelog import Cluster
from tidelog.cluster.network.relayed import RelayNetwork
from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.faults.places import KEEPER, Channel
from tidelog.kafka_client.admin import Admin, PartitionView

pytestmark = pytest.mark.slow

BROKERS = (1, 2, 3)


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(settings={"replica.lag.time.max.ms": 1_500}) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    yield running
    assert running.heal() == []
    running.wait_in_sync()


@pytest.fixture
def board(cluster: Cluster) -> Switchboard:
    assert isinstance(cluster.network, RelayNetwork)
    return cluster.network.board


def new_topic(cluster: Cluster, *replicas: int) -> str:
    """Led by the first of its replicas; all are in sync when this returns."""
    name = cluster.topic(f"t-{uuid.uuid4().hex[:8]}", replicas=[replicas])
    cluster.wait_isr(name, replicas)
    assert cluster.leader_of(name) == replicas[0]
    return name


def client_in(cluster: Cluster, zone: str) -> tuple[str, str]:
    """The name of a new client in a zone, and where it begins."""
    name = f"client-{uuid.uuid4().hex[:8]}"
    return name, cluster.bootstrap_for(name, zone)


class Sender:
    """A producer that remembers what became of each record."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        quick = {"linger.ms": 0, "reconnect.backoff.max.ms": 200, "acks": "all", **QUIET}
        self.producer = Producer({"bootstrap.servers": bootstrap} | quick | settings)
        self.outcomes: dict[str, str] = {}

    def send(self, topic: str, value: str) -> None:
        def delivered(error: Any, _message: Any) -> None:
            self.outcomes[value] = error.name() if error is not None else "ok"

        self.producer.produce(topic, value, partition=0, on_delivery=delivered)

    def outcome(self, value: str) -> str:
        """Empty while nothing is known."""
        self.producer.poll(0.01)
        return self.outcomes.get(value, "")

    def sent(self, topic: str, value: str) -> str:
        """What becomes of a record."""
        self.send(topic, value)
        return eventually(lambda: self.outcome(value), f"the fate of {value}")


def read(bootstrap: str, topic: str, count: int) -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, **QUIET}
    )
    values: list[str] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + 60
        while len(values) < count and time.monotonic() < deadline:
            for message in consumer.consume(count, timeout=0.2):
                if message.error() is None:
                    values.append((message.value() or b"").decode())
    finally:
        consumer.close()
    return values


def partition(cluster: Cluster, topic: str) -> PartitionView:
    with Admin(cluster.bootstrap_servers) as admin:
        [view] = admin.topics([topic])
        admin.add_offsets([view])
    return view.partitions[0]


def test_clients_of_each_zone_see_the_cluster_through_their_own_relays(cluster: Cluster, board: Switchboard):
    """They produce and consume, and every address they get is one of their relays."""
    topic = new_topic(cluster, 1, 2, 3)
    (here, servers), (there, other_servers) = client_in(cluster, "az1"), client_in(cluster, "az2")
    sender = Sender(servers)
    assert [sender.sent(topic, value) for value in "abc"] == ["ok"] * 3
    assert read(other_servers, topic, 3) == ["a", "b", "c"]
    told = sender.producer.list_topics(topic, timeout=PATIENCE_SECONDS).brokers
    seen = {number: (broker.host, broker.port) for number, broker in told.items()}
    assert seen == {number: board.route(here, number) for number in BROKERS}
    assert not {board.route(there, number) for number in BROKERS} & set(seen.values())


def test_a_client_that_is_cut_off_from_the_leader_recovers(cluster: Cluster):
    """Its sends time out, those of others do not; when the link heals, they arrive again."""
    topic = new_topic(cluster, 1, 2, 3)
    (cut_off, servers), (_, other_servers) = client_in(cluster, "az2"), client_in(cluster, "az3")
    sender = Sender(servers, **{"message.timeout.ms": 1000, "request.timeout.ms": 500})
    assert sender.sent(topic, "a") == "ok"
    with cluster.cut(cut_off, 1):
        assert sender.sent(topic, "b") == "_MSG_TIMED_OUT"
        assert Sender(other_servers).sent(topic, "c") == "ok"
    attempts = iter(range(1000))
    eventually(lambda: sender.sent(topic, f"d{next(attempts)}") == "ok", "it can send again")
    # So short a time-out may make an impatient client send its first record twice.
    assert list(dict.fromkeys(read(other_servers, topic, 3)))[:2] == ["a", "c"]


def test_a_follower_can_be_stepped_by_single_fetches(cluster: Cluster, board: Switchboard):
    """One fetch brings a record to the follower, the next one confirms it: then the high watermark moves, and
    the producer hears of it."""
    topic = new_topic(cluster, 1, 2)
    sender = Sender(client_in(cluster, "az1")[1])
    assert [sender.sent(topic, "a"), sender.sent(topic, "b")] == ["ok", "ok"]
    eventually(lambda: partition(cluster, topic).high_watermark == 2)
    fetches = Channel("fetch", 2, 1)
    with cluster.hold_replication(2, 1):
        eventually(lambda: board.in_flight(fetches) == 1, "a fetch is held")
        sender.send(topic, "c")
        eventually(lambda: partition(cluster, topic).log_end_offset == 3, "the leader has written c")
        assert board.deliver(fetches)
        eventually(lambda: board.in_flight(fetches) == 1, "the follower has c, and its next fetch is held")
        assert (partition(cluster, topic).high_watermark, sender.outcome("c")) == (2, "")
        assert board.deliver(fetches)
        eventually(lambda: sender.outcome("c") == "ok", "c is acknowledged")
        assert partition(cluster, topic).high_watermark == 3


def test_one_direction_between_two_brokers_can_be_cut(cluster: Cluster):
    """The follower's fetches get lost, though answers would come: it leaves the ISR, and returns. Were it the
    controller, no broker would hear of that."""
    controller = cluster.controller
    leader, follower = (broker for broker in BROKERS if broker != controller)
    topic = new_topic(cluster, leader, follower, controller)
    with cluster.cut(follower, leader, one_way=True):
        # When the leader removes the follower, the high watermark waits for the next append: that of the
        # retry.
        sender = Sender(client_in(cluster, "az1")[1], **{"request.timeout.ms": 5_000})
        assert sender.sent(topic, "a") == "ok"
        eventually(lambda: cluster.isr(topic) == {leader, controller}, "the follower is out of sync")
    assert cluster.isr(topic) == set(BROKERS)


def test_broken_connections_are_made_again(cluster: Cluster):
    """A reset in the middle of things loses nothing."""
    topic = new_topic(cluster, 1, 2, 3)
    client, servers = client_in(cluster, "az1")
    sender = Sender(servers, **{"enable.idempotence": True})
    for round_ in range(5):
        sender.send(topic, f"{round_}")
        cluster.reset(client, 1)
        cluster.reset(1, 2)
    eventually(lambda: sender.outcome("4"), "all are decided")
    assert set(sender.outcomes.values()) == {"ok"}
    assert read(servers, topic, 5) == ["0", "1", "2", "3", "4"]


def test_a_broker_that_the_keeper_does_not_hear_is_replaced(cluster: Cluster):
    """Its session runs out and another leads; when the link heals it follows and is in sync again."""
    topic = new_topic(cluster, 2, 3, 1)
    with cluster.cut(2, KEEPER):
        cluster.wait_leader_not(2, topic)
    assert cluster.isr(topic) == set(BROKERS)


def test_everything_between_brokers_went_through_the_switchboard(cluster: Cluster, board: Switchboard):
    """Every pair of them talks, and each with the keeper: none found another way."""
    for replicas in ((1, 2, 3), (2, 3, 1), (3, 1, 2)):
        new_topic(cluster, *replicas)
    traffic = board.traffic()
    for broker in BROKERS:
        assert traffic[broker, KEEPER].messages
        assert traffic[KEEPER, broker].messages
    talked = {pair for pair, flow in traffic.items() if flow.messages and pair[0] in BROKERS}
    assert {(a, b) for a in BROKERS for b in BROKERS if a != b} <= talked
