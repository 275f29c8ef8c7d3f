"""What a topic is set to shows in its files and records, on every replica; and topics come and go."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.broker.running import (
    QUIET,
    Lines,
    address,
    consume,
    create,
    eventually,
    log_folder,
    produce,
    view,
    wait_until_equal,
    without_tracebacks,
)
from tests.clients import raw

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.kafka_client.admin import Admin
from tidelog.kafka_client.blocking import Client
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

with warnings.catch_warnings():
    # Its schemas are read through a function that Python 3.11 deprecates; it works all the same.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, TopicPartition  # type: ignore[import-untyped]

pytestmark = pytest.mark.slow

ONE_BY_ONE: dict[str, Any] = {"batch.num.messages": 1}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("topics")
    lines = Lines()
    settings = {"log.retention.check.interval.ms": "200", "zookeeper.session.timeout.ms": "2000"}
    with Cluster(ClusterSpec(settings=settings), folder, on_line=lines) as running:
        yield running
    without_tracebacks(line for _, line in lines.said)


def segments(cluster: Cluster, broker: int, topic: str) -> list[int]:
    """The base offsets of the segments of partition 0."""
    return sorted(int(path.stem) for path in log_folder(cluster, broker, topic).glob("*.log"))


def start_and_end(cluster: Cluster, topic: str) -> tuple[int | None, int | None]:
    with Admin(cluster.bootstrap_servers) as admin:
        topics = admin.topics([topic])
        admin.add_offsets(topics)
        part = topics[0].partitions[0]
        return part.start_offset, part.log_end_offset


# ---------------------------------------------------------------- settings


def test_the_largest_batch_can_be_changed_while_it_runs(cluster: Cluster):
    create(cluster, "sized", max_message_bytes=1000)
    assert produce(cluster, "sized", ["x" * 500]) == []
    (refused,) = produce(cluster, "sized", ["x" * 2000])
    assert "MSG_SIZE_TOO_LARGE" in refused
    with Admin(cluster.bootstrap_servers) as admin:
        admin.alter("sized", {"max.message.bytes": "5000"})
    eventually(lambda: produce(cluster, "sized", ["x" * 2000]) == [], "the larger size is known")


def test_append_time_is_the_brokers(cluster: Cluster):
    """Whatever the producer says, also in compressed batches; the checksum still covers what was stored."""
    create(cluster, "stamped", message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    for codec in ("none", "gzip"):
        config = {"bootstrap.servers": cluster.bootstrap_servers, "compression.type": codec, **QUIET}
        producer = Producer(config)
        for number in range(3):
            producer.produce("stamped", f"{codec} {number}" * 50, timestamp=1_000_000_000_000)
        assert producer.flush(60) == 0
    after = int(time.time() * 1000)
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers.split(","), check_crcs=True, consumer_timeout_ms=60_000
    )
    try:
        where = TopicPartition("stamped", 0)
        consumer.assign([where])
        consumer.seek(where, 0)
        read = [next(consumer) for _ in range(6)]
    finally:
        consumer.close()
    assert {record.timestamp_type for record in read} == {1}
    assert all(before <= record.timestamp <= after for record in read)
    assert [record.timestamp for record in read] == sorted(record.timestamp for record in read)


def test_a_clock_that_is_too_far_off_is_refused(cluster: Cluster):
    create(cluster, "punctual", message_timestamp_difference_max_ms=3_600_000)
    assert produce(cluster, "punctual", ["now"]) == []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    refused: list[Any] = []
    producer.produce(
        "punctual",
        "long ago",
        timestamp=1_000_000_000_000,
        on_delivery=lambda error, _: refused.append(error),
    )
    assert producer.flush(60) == 0
    assert refused[0].code() == ErrorCode.INVALID_TIMESTAMP


def test_what_cannot_be_taken_and_wants_no_answer_is_hung_up_on(cluster: Cluster):
    """With acks=0 a producer gets no other sign; its earlier records were stored."""
    create(cluster, "careless")
    where = address(cluster, cluster.leader_of("careless"))
    with raw.Connection(where) as connection:
        for batch in (raw.batch([b"good"]), raw.batch([b"damaged"], crc=1)):
            body = raw.produce_body("careless", batch, acks=0)
            connection.request(raw.PRODUCE, raw.PRODUCE_VERSION, body)
        assert connection.is_closed_by_peer()
    assert consume(cluster, "careless", 1) == [(0, "good")]


def test_segments_are_rolled_by_size(cluster: Cluster):
    create(cluster, "rolled", segment_bytes=2000)
    assert produce(cluster, "rolled", ["x" * 400] * 20, **ONE_BY_ONE) == []
    wait_until_equal(cluster, "rolled")
    for broker in cluster.pids:
        assert segments(cluster, broker, "rolled") == [0, 4, 8, 12, 16]


def test_old_segments_go_on_every_replica(cluster: Cluster):
    """As many bytes stay as the topic is to keep, whole segments only; readers start where the log does."""
    create(cluster, "kept", segment_bytes=2000, retention_bytes=5000)
    assert produce(cluster, "kept", ["x" * 400] * 40, **ONE_BY_ONE) == []
    for broker in cluster.pids:
        eventually(lambda broker=broker: segments(cluster, broker, "kept") == [28, 32, 36])  # type: ignore[misc]
    eventually(lambda: start_and_end(cluster, "kept") == (28, 40))
    assert [offset for offset, _ in consume(cluster, "kept", 12, start=28)] == list(range(28, 40))
    with raw.Connection(address(cluster, cluster.leader_of("kept"))) as connection:
        below = connection.ask(raw.FETCH, raw.FETCH_VERSION, raw.fetch_body("kept", 0))
        assert raw.fetched(below).error == raw.OFFSET_OUT_OF_RANGE


def test_records_go_when_they_are_old(cluster: Cluster):
    """All of them if all are; and what comes then is numbered on. A replica that was away follows."""
    create(cluster, "aged", segment_bytes=2000, retention_ms=1)
    assert produce(cluster, "aged", ["x" * 400] * 10, **ONE_BY_ONE) == []
    eventually(lambda: start_and_end(cluster, "aged") == (10, 10))
    for broker in cluster.pids:
        # The segment in which a follower's log starts may stay, as long as it was the active one.
        eventually(lambda broker=broker: set(segments(cluster, broker, "aged")) <= {8, 10})  # type: ignore[misc]
    follower = next(n for n in cluster.pids if n != cluster.leader_of("aged"))
    cluster.kill(follower)
    assert produce(cluster, "aged", ["y"] * 5, **ONE_BY_ONE) == []
    eventually(lambda: start_and_end(cluster, "aged") == (15, 15))
    with Admin(cluster.bootstrap_servers) as admin:
        admin.alter("aged", {"retention.ms": "-1"})
    cluster.start_broker(follower)
    cluster.ready()
    cluster.wait_isr("aged", 3)
    eventually(lambda: segments(cluster, follower, "aged") == [15])
    assert produce(cluster, "aged", ["z"]) == []
    assert consume(cluster, "aged", 1, start=15) == [(15, "z")]


# ---------------------------------------------------------------- coming and going


def test_a_deleted_topic_is_gone_from_every_disk(cluster: Cluster):
    """Also from that of a broker that was away; then the name may mean something new."""
    create(cluster, "gone")
    assert produce(cluster, "gone", ["old"]) == []
    wait_until_equal(cluster, "gone")
    follower = next(n for n in cluster.pids if n != cluster.leader_of("gone"))
    cluster.kill(follower)
    eventually(lambda: is_missed(cluster, follower))
    with Admin(cluster.bootstrap_servers) as admin:
        admin.delete("gone")
        assert admin.wait_until_gone("gone")
    for broker in cluster.pids:
        eventually(lambda broker=broker: remains(cluster, broker) == [])  # type: ignore[misc]
    assert remains(cluster, follower) == ["gone-0"]
    cluster.start_broker(follower)
    cluster.ready()
    eventually(lambda: remains(cluster, follower) == [])
    eventually(lambda: created_again(cluster), "the name is free")
    assert produce(cluster, "gone", ["new"]) == []
    assert consume(cluster, "gone", 1) == [(0, "new")]


def is_missed(cluster: Cluster, broker: int) -> bool:
    with Client(*address(cluster, min(cluster.pids))) as client:
        known = client.metadata([])
    return known.controller_id in cluster.pids and all(each.node_id != broker for each in known.brokers)


def remains(cluster: Cluster, broker: int) -> list[str]:
    """What is left of the topic's folders, also under the names that they have on their way out."""
    return sorted(path.name for path in (cluster.data_dir / f"broker-{broker}").glob("gone-*"))


def created_again(cluster: Cluster) -> bool:
    try:
        create(cluster, "gone")
    except Exception:
        return False
    return True


def ask_for(where: tuple[str, int], topic: str) -> ErrorCode:
    """Ask one broker for a topic as a producer does: with the wish that it be created."""
    with Client(*where) as client:
        wanted = [MetadataRequestTopic(name=topic)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=True)
        return ErrorCode(client.ask(Api.METADATA, request).topics[0].error_code)


def test_topics_are_created_for_whoever_asks_for_them(cluster: Cluster):
    """By whichever broker is asked, the controller among them."""
    for broker in cluster.pids:
        topic = f"wanted-{broker}"
        assert ask_for(address(cluster, broker), topic) is ErrorCode.LEADER_NOT_AVAILABLE
        eventually(lambda topic=topic: len(view(cluster, 1, topic)) == 1)  # type: ignore[misc]


def test_a_topic_that_cannot_be_created_is_refused_with_a_reason(tmp_path: Path):
    """To the client at its second try, to the operator in one line, however often the client asks."""
    lines = Lines()
    settings = {"default.replication.factor": "3"}
    with Cluster(ClusterSpec(brokers=1, settings=settings), tmp_path, on_line=lines) as cluster:
        where = address(cluster, 1)
        eventually(lambda: ask_for(where, "too-much") is ErrorCode.INVALID_REPLICATION_FACTOR)
        for _ in range(5):
            assert ask_for(where, "too-much") is ErrorCode.INVALID_REPLICATION_FACTOR
    (said,) = lines.with_words("WARNING", "cannot create topic too-much for a client: ")
    assert "Replication factor: 3 larger than available brokers: 1" in said


def test_topics_are_not_created_where_that_is_forbidden(tmp_path: Path):
    settings = {"auto.create.topics.enable": "false"}
    with Cluster(ClusterSpec(brokers=1, settings=settings), tmp_path) as cluster:
        for _ in range(3):
            assert ask_for(address(cluster, 1), "unwanted") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with Client(*address(cluster, 1)) as client:
            assert [topic.name for topic in client.metadata(None).topics] == ["__consumer_offsets"]
