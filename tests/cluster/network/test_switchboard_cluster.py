"""A real cluster behind the switchboard: real clients, real elections, faults from outside."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from bench.processes import PATIENCE_SECONDS
from confluent_kafka import Consumer, TopicPartition
from tests.broker.running import QUIET, eventually
from tests.cluster.network.relayed import RelayedCluster, Sender

from tidelog.faults.places import KEEPER, Channel, Node

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayedCluster]:
    with RelayedCluster(tmp_path_factory.mktemp("relayed")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: RelayedCluster) -> Iterator[RelayedCluster]:
    yield running
    running.board.heal()
    running.board.release(None)
    running.delete_topics()


def between(a: Node, b: Node) -> list[tuple[Node, Node]]:
    return [(a, b), (b, a)]


def read(cluster: RelayedCluster, client: str, topic: str, count: int) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap(client),
            "group.id": "none",
            "enable.auto.commit": False,
            **QUIET,
        }
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


def high_watermark(cluster: RelayedCluster, topic: str) -> int | None:
    seen = cluster.partition(topic)
    return seen.high_watermark if seen is not None else None


def test_clients_of_each_zone_see_the_cluster_through_their_own_relays(cluster: RelayedCluster):
    """They produce and consume, and whatever they are told leads to relays of theirs."""
    topic = cluster.new_topic([0, 1, 2])
    here, there = cluster.client("az1"), cluster.client("az2")
    sender = Sender(cluster.bootstrap(here))
    assert [sender.sent(topic, value) for value in "abc"] == ["ok"] * 3
    assert read(cluster, there, topic, 3) == ["a", "b", "c"]
    told = sender.producer.list_topics(topic, timeout=PATIENCE_SECONDS).brokers
    seen = {number: (broker.host, broker.port) for number, broker in told.items()}
    assert seen == {number: cluster.board.route(here, number) for number in range(3)}
    assert not {cluster.board.route(there, number) for number in range(3)} & set(seen.values())


def test_a_client_that_is_cut_off_from_the_leader_recovers(cluster: RelayedCluster):
    """Its sends time out, those of others do not; when the link heals, they arrive again."""
    topic = cluster.new_topic([0, 1, 2])
    cut_off, other = cluster.client("az2"), cluster.client("az3")
    sender = Sender(cluster.bootstrap(cut_off), **{"message.timeout.ms": 1000, "request.timeout.ms": 500})
    assert sender.sent(topic, "a") == "ok"
    cluster.board.cut(between(cut_off, 0))
    assert sender.sent(topic, "b") == "_MSG_TIMED_OUT"
    assert Sender(cluster.bootstrap(other)).sent(topic, "c") == "ok"
    cluster.board.heal()
    attempts = iter(range(1000))
    eventually(lambda: sender.sent(topic, f"d{next(attempts)}") == "ok", "it can send again")
    # So short a time-out may make an impatient client send its first record twice.
    assert list(dict.fromkeys(read(cluster, other, topic, 3)))[:2] == ["a", "c"]


def test_a_follower_can_be_stepped_by_single_fetches(cluster: RelayedCluster):
    """The high watermark moves when the leader sees the fetch that says so, and the producer hears then."""
    topic = cluster.new_topic([0, 1])
    sender = Sender(cluster.bootstrap(cluster.client("az1")))
    assert [sender.sent(topic, "a"), sender.sent(topic, "b")] == ["ok", "ok"]
    fetches = Channel("fetch", 1, 0)
    eventually(lambda: high_watermark(cluster, topic) == 2)
    cluster.board.hold(fetches)
    sender.send(topic, "c")
    sender.producer.flush(0.2)
    # Whatever fetch was at the leader brought c to the follower. The next one, which confirms it, is held.
    eventually(lambda: cluster.board.in_flight(fetches) == 1, "a fetch is held")
    assert not sender.outcome("c")
    assert high_watermark(cluster, topic) == 2
    assert cluster.board.deliver(fetches)
    eventually(lambda: sender.outcome("c") == "ok", "c is acknowledged")
    assert high_watermark(cluster, topic) == 3
    cluster.board.release(fetches)


def test_one_direction_between_two_brokers_can_be_cut(cluster: RelayedCluster):
    """The follower's fetches get lost, though answers would come: it leaves the ISR, and returns. Were it the
    controller, no broker would hear of that."""
    controller = cluster.controller()
    leader, follower = (broker for broker in range(3) if broker != controller)
    topic = cluster.new_topic([leader, follower, controller])
    cluster.board.cut([(follower, leader)])
    # When the leader removes the follower, the high watermark waits for the next append: that of the retry.
    sender = Sender(cluster.bootstrap(cluster.client("az1")), **{"request.timeout.ms": 5_000})
    assert sender.sent(topic, "a") == "ok"
    cluster.wait_for_isr(topic, {leader, controller}, leader)
    cluster.board.heal()
    cluster.wait_for_isr(topic, {0, 1, 2}, leader)


def test_broken_connections_are_made_again(cluster: RelayedCluster):
    """A reset in the middle of things loses nothing."""
    topic = cluster.new_topic([0, 1, 2])
    client = cluster.client("az1")
    sender = Sender(cluster.bootstrap(client), **{"enable.idempotence": True})
    for round_ in range(5):
        sender.send(topic, f"{round_}")
        cluster.board.reset(client, 0)
        cluster.board.reset(0, 1)
    eventually(lambda: sender.outcome("4"), "all are decided")
    assert set(sender.outcomes.values()) == {"ok"}
    assert read(cluster, client, topic, 5) == ["0", "1", "2", "3", "4"]


def test_a_broker_that_the_keeper_does_not_hear_is_replaced(cluster: RelayedCluster):
    """Its session runs out and another leads; when the link heals it follows and is in sync again."""
    topic = cluster.new_topic([1, 2, 0])
    cluster.board.cut(between(1, KEEPER))
    cluster.wait_for_leader(topic, 2, asked=2)
    cluster.board.heal()
    cluster.wait_for_isr(topic, {0, 1, 2}, asked=2)


def test_a_killed_broker_comes_back_elsewhere(cluster: RelayedCluster):
    """Clients and brokers find it where the switchboard says, on a port that none of them knows."""
    topic = cluster.new_topic([2, 1, 0])
    client = cluster.client("az1")
    sender = Sender(cluster.bootstrap(client))
    assert sender.sent(topic, "a") == "ok"
    cluster.kill(2)
    cluster.wait_for_leader(topic, 1, asked=0)
    assert sender.sent(topic, "b") == "ok"
    cluster.start(2)
    cluster.wait_for_isr(topic, {0, 1, 2}, asked=0)
    assert read(cluster, client, topic, 2) == ["a", "b"]


def test_everything_between_brokers_went_through_the_switchboard(cluster: RelayedCluster):
    """Every pair of them talks, and each with the keeper: none found another way."""
    for replicas in ([0, 1, 2], [1, 2, 0], [2, 0, 1]):
        cluster.new_topic(replicas)
    traffic = cluster.board.traffic()
    for broker in range(3):
        assert traffic[broker, KEEPER].messages
        assert traffic[KEEPER, broker].messages
    talked = {pair for pair, flow in traffic.items() if flow.messages and pair[0] in range(3)}
    assert {(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)} <= talked
