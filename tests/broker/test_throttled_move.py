"""A partition of 20 MB moves under a throttle, between real brokers: how fast, and who notices."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.broker.running import (
    Lines,
    address,
    consume,
    eventually,
    log_folder,
    partition,
    produce,
    set_at_run_time,
    without_tracebacks,
)

from tidelog.broker.replication_quota import SAMPLE_MS, SAMPLES
from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.kafka_client import throttles
from tidelog.kafka_client.admin import Admin

pytestmark = pytest.mark.slow

FETCH_BYTES = 200_000
"""Of one fetch from a partition."""
PIECE_BYTES = 1_100_000
"""A fetch brings at least one batch, whole, and a producer's batch has a megabyte at most. The last one may
be above the quota."""
RECORD_BYTES, RECORDS = 100_000, 200
RATE = 3_000_000
NEARLY_NOTHING = 1_000
FROM, TO = [1, 2], [3, 2]
SETTINGS = {"replica.fetch.max.bytes": str(FETCH_BYTES), "offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    lines = Lines()
    spec = ClusterSpec(brokers=3, settings=SETTINGS)
    with Cluster(spec, tmp_path_factory.mktemp("throttled"), on_line=lines) as running:
        yield running
    without_tracebacks(line for _, line in lines.said)


@dataclass
class Move:
    """Of a topic's only partition."""

    cluster: Cluster
    topic: str

    def begin(self, rate: int) -> float:
        """Returns the time before that."""
        with Admin(self.cluster.bootstrap_servers) as admin:
            admin.create(self.topic, assignment=[FROM], settings={"min.insync.replicas": "2"})
        eventually(lambda: sorted(partition(self.cluster, self.topic).isr) == FROM, "the topic is there")
        assert produce(self.cluster, self.topic, self.values()) == []
        with Admin(self.cluster.bootstrap_servers) as admin:
            (view,) = admin.topics([self.topic])
            assert throttles.throttle(admin, view, {0: TO}, rate) == [1, 2, 3]
            began = time.monotonic()
            admin.reassign(self.topic, {0: TO})
        return began

    def values(self) -> Iterator[str]:
        return (f"{number}".ljust(RECORD_BYTES, ".") for number in range(RECORDS))

    def unthrottle(self) -> None:
        with Admin(self.cluster.bootstrap_servers) as admin:
            throttles.unthrottle(admin, self.topic)

    def copied(self) -> int:
        """Bytes in the log of the new replica."""
        logs = log_folder(self.cluster, TO[0], self.topic).glob("*.log")
        return sum(path.stat().st_size for path in logs)

    def is_over(self) -> bool:
        part = partition(self.cluster, self.topic)
        return part.replicas == TO and sorted(part.isr) == sorted(TO)


def may_pass(rate: int, seconds: float) -> float:
    """What a quota allows in any time of this length: a second of it at once, the rate from then on, and in
    each window a fetch that begins below the quota and ends above it."""
    windows = 1 + seconds * 1_000 // ((SAMPLES - 1) * SAMPLE_MS)
    return rate * (seconds + SAMPLE_MS / 1_000) + windows * PIECE_BYTES


def test_a_move_is_no_faster_than_its_throttle(cluster: Cluster) -> None:
    """At any time since it began. Producers with acks=all do not wait for the new replica meanwhile."""
    move = Move(cluster, "steady")
    began = move.begin(RATE)
    sent = 0
    while not move.is_over():
        copied = move.copied()
        assert copied <= may_pass(RATE, time.monotonic() - began)
        assert produce(cluster, move.topic, [f"meanwhile {sent}"]) == []
        sent += 1
    size, took = RECORDS * RECORD_BYTES, time.monotonic() - began
    assert size <= may_pass(RATE, took), f"{size / took:,.0f} bytes a second"
    assert sent > 1
    move.unthrottle()
    values = [value for _, value in consume(cluster, move.topic, RECORDS + sent)]
    assert values == [*move.values(), *(f"meanwhile {number}" for number in range(sent))]


def test_a_move_that_would_take_hours_ends_when_its_throttle_is_removed(cluster: Cluster) -> None:
    """Not before: a broker that is started again has its rate, too."""
    move = Move(cluster, "slow")
    move.begin(NEARLY_NOTHING)
    eventually(lambda: move.copied() > 0, "the first fetch passes")
    given = {f"{throttles.LEADER_RATE}={NEARLY_NOTHING}", f"{throttles.FOLLOWER_RATE}={NEARLY_NOTHING}"}
    cluster.stop_broker(TO[0])
    cluster.start_broker(TO[0])
    eventually(lambda: set_at_run_time(address(cluster, TO[0]), TO[0]) == given, "it knows its rates")
    assert produce(cluster, move.topic, ["meanwhile"]) == []
    assert not move.is_over()
    assert move.copied() < RECORDS * RECORD_BYTES / 2
    move.unthrottle()
    eventually(move.is_over, "the partition has moved")
    assert len(consume(cluster, move.topic, RECORDS + 1)) == RECORDS + 1
