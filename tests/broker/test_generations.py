"""The four generations of rules on real processes: what is the same to a client, and what is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS
from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.broker.running import (
    Lines,
    consume,
    create,
    events,
    eventually,
    produce,
    wait_until_equal,
    without_tracebacks,
)
from tests.groups.members import ConfluentMember
from tests.groups.members import eventually as await_members

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.core.reasons import TruncationRule

pytestmark = pytest.mark.slow

TOPIC = "records"
SETTINGS = {
    "zookeeper.session.timeout.ms": "2000",
    # Longer than a test: a broker that is killed knows no high watermark when it comes back.
    "replica.high.watermark.checkpoint.interval.ms": "600000",
    # Under hw a new controller leaves a dead follower to its leader, which looks once in this time.
    "replica.lag.time.max.ms": "5000",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "1",
}


@contextmanager
def cluster_of(generation: str, folder: Path) -> Iterator[Cluster]:
    lines = Lines()
    overrides = SETTINGS | {"tidelog.evidence.dir": str(folder / "events")}
    with Cluster(ClusterSpec(generation=generation, settings=overrides), folder, on_line=lines) as cluster:
        create(cluster, TOPIC)
        yield cluster
    without_tracebacks(line for _, line in lines.said)


def values(start: int, end: int) -> list[str]:
    return [str(number) for number in range(start, end)]


def read_values(cluster: Cluster, count: int) -> list[str]:
    return [value for _, value in consume(cluster, TOPIC, count)]


def truncations(folder: Path, broker: int) -> list[dict[str, object]]:
    return [
        row for row in events(folder / "events") if row["event"] == "truncated" and row["broker"] == broker
    ]


@pytest.mark.parametrize("generation", ["hw", "kip101", "epoch", "majority"])
def test_a_cluster_goes_on_without_its_leader(tmp_path: Path, generation: str):
    """Nothing acknowledged by all is lost with it. When it returns, only the oldest rules make it throw away
    what it has: all above the high watermark that it remembers, which is none."""
    with cluster_of(generation, tmp_path) as cluster:
        assert produce(cluster, TOPIC, values(0, 50)) == []
        wait_until_equal(cluster, TOPIC)
        leader = cluster.leader_of(TOPIC)
        cluster.kill(leader)
        cluster.leader_of(TOPIC)
        assert produce(cluster, TOPIC, values(50, 100)) == []
        assert read_values(cluster, 100) == values(0, 100)
        cluster.start_broker(leader)
        wait_until_equal(cluster, TOPIC)
        cut = truncations(tmp_path, leader)
        if generation == "hw":
            assert [(row["previous_log_end_offset"], row["log_end_offset"]) for row in cut] == [(50, 0)]
            assert cut[0]["rule"] == TruncationRule.OWN_HIGH_WATERMARK
        else:
            assert cut == []
        assert read_values(cluster, 100) == values(0, 100)


@pytest.mark.parametrize("generation", ["hw", pytest.param("kip101", marks=pytest.mark.long), "majority"])
def test_a_group_outlives_its_coordinator(tmp_path: Path, generation: str):
    """A member reads and commits; its coordinator is killed. The next one has its position, and takes more.
    (What `epoch` promises beyond that is in tests/clients/test_groups_failover.py.)"""
    with cluster_of(generation, tmp_path) as cluster:
        assert produce(cluster, TOPIC, values(0, 20)) == []
        member = ConfluentMember(cluster.bootstrap_servers, "group", TOPIC, session_timeout_ms=30_000)
        with closing(member):
            await_members(lambda: len(set(member.records)) == 20, [member])
            member.commit()
            reached = position(cluster)
            assert reached >= 20, "under majority a leader's own record counts too"
            cluster.kill(cluster.leader_of("__consumer_offsets"))
            await_members(lambda: position(cluster) == reached)
            assert produce(cluster, TOPIC, values(20, 30)) == []
            await_members(lambda: len(set(member.records)) == 30, [member])
            member.commit()
            assert position(cluster) >= reached + 10


def position(cluster: Cluster) -> int:
    """The committed offset of the group in the topic; -1 if it is unknown."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "group", "log_level": 0}
    with closing(Consumer(settings)) as reader:
        try:
            return int(reader.committed([TopicPartition(TOPIC, 0)], timeout=PATIENCE_SECONDS)[0].offset)
        except KafkaException:
            return -1


def test_a_majority_survives_the_loss_of_any_broker(tmp_path: Path):
    """One after the other is killed and comes back; what was acknowledged is there all the time."""
    with cluster_of("majority", tmp_path) as cluster:
        written = 0
        for broker in (1, 2, 3):
            cluster.leader_of(TOPIC)
            assert produce(cluster, TOPIC, values(written, written + 20)) == []
            written += 20
            cluster.kill(broker)  # a majority has it all, perhaps only a majority
            cluster.leader_of(TOPIC)
            assert produce(cluster, TOPIC, values(written, written + 20)) == []
            written += 20
            assert read_values(cluster, written) == values(0, written)
            cluster.start_broker(broker)
            eventually(lambda: len(cluster.pids) == 3)
            wait_until_equal(cluster, TOPIC)
