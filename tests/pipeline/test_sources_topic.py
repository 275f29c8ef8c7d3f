"""The Spark source over live topics: tables and streams of a cluster that runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.pipeline.errors import PipelineError, first_line
from tidelog.pipeline.sources.topic_client import TopicOptions, limited

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster with the topics `a` and `b`, of two partitions each."""
    with Cluster(ClusterSpec(brokers=1), tmp_path_factory.mktemp("topics")) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        made = admin.create_topics([NewTopic(name, 2, 1) for name in ("a", "b")])
        for done in made.values():
            done.result(60)
        yield cluster.bootstrap_servers


def produce(servers: str, topic: str, values: range) -> None:
    """Each value to the partition of its parity."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all"})
    for n in values:
        headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % n)] if n == 3 else []
        producer.produce(
            topic, b"p1-%d padding" % n, b"k%d" % n, partition=n % 2, headers=headers, timestamp=n + 1
        )
    assert producer.flush(60) == 0


def options(servers: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, **more}


def table(spark: SparkSession, **chosen: str) -> DataFrame:
    return spark.read.format("tidelog_topic").options(**chosen).load()


def test_a_topic_as_a_table(spark: SparkSession, servers: str) -> None:
    """All records with their places, epochs, times and headers, by name or by pattern, whole or in part."""
    produce(servers, "a", range(10))
    rows = table(spark, **options(servers, subscribe="a")).orderBy("timestamp_ms").collect()
    assert [row["value_id"] for row in rows] == [f"p1-{n}" for n in range(10)]
    assert [(row["partition"], row["offset"]) for row in rows] == [(n % 2, n // 2) for n in range(10)]
    assert {row["leader_epoch"] for row in rows} == {0}
    assert bytes(rows[4]["key"]) == b"k4"
    assert [(header["key"], bytes(header["value"])) for header in rows[3]["headers"]] == [("n", b"3")]
    some = options(
        servers,
        subscribePattern="a|nothing",
        startingOffsets=json.dumps({"a": {"0": 3, "1": -1}}),
        endingOffsets=json.dumps({"a": {"0": 4, "1": -1}}),
    )
    assert [row["value_id"] for row in table(spark, **some).collect()] == ["p1-6"]


@pytest.mark.slow
def test_a_stream_goes_on_where_it_was(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    """Stopped and started again from its checkpoint, with a limit on each step, every record comes once."""
    produce(servers, "b", range(30))

    def run_until_all_is_read() -> int:
        stream = spark.readStream.format("tidelog_topic").options(
            **options(servers, subscribe="b", max_rows="12")
        )
        query = (
            stream.load()
            .select("value_id")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "rows"))
        )
        assert query.awaitTermination(240)
        return sum(1 for step in query.recentProgress if step["numInputRows"])

    def seen() -> list[int]:
        rows = spark.read.parquet(str(tmp_path / "rows")).collect()
        return sorted(int(row["value_id"].removeprefix("p1-")) for row in rows)

    assert run_until_all_is_read() == 3
    assert seen() == list(range(30))
    produce(servers, "b", range(30, 40))
    assert run_until_all_is_read() == 1
    assert seen() == list(range(40))


def test_a_cluster_that_does_not_answer_is_one_line(
    spark: SparkSession, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is a topic that is not there."""
    from tidelog.pipeline.sources import topic_client

    with pytest.raises(Exception, match="PipelineError") as refusal:
        table(spark, **options(servers, subscribe="nothing")).collect()
    assert first_line(refusal.value) == f"there is no topic nothing at {servers}"
    monkeypatch.setattr(topic_client, "ANSWER_WITHIN_S", 1.0)
    asked = topic_client.Topics(TopicOptions({**SERVERS, "subscribe": "a"}))
    with pytest.raises(
        PipelineError, match=r"^no broker answers at 127\.0\.0\.1:1: is the cluster running\?$"
    ):
        asked.position("latest")
    asked.close()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscribe": "a"}, "needs the option kafka.bootstrap.servers"),
        (SERVERS, "either subscribe"),
        ({**SERVERS, "subscribe": "a", "subscribePattern": "b"}, "either subscribe"),
        (
            {**SERVERS, "subscribe": "a", "startingOffsets": "yesterday"},
            "startingOffsets is earliest, latest",
        ),
        ({**SERVERS, "subscribe": "a", "startingOffsets": "[1]"}, "startingOffsets is earliest, latest"),
        ({**SERVERS, "subscribe": "a", "max_rows": "0"}, "max_rows must be a positive number"),
    ],
)
def test_options_are_checked_before_anything_is_asked(given: dict[str, str], words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        TopicOptions(given)


def test_a_limit_moves_every_partition_on() -> None:
    """Each by its share of what waits; one that has little is not starved by one that has much."""
    start = {"t": {"0": 0, "1": 100, "2": 5}}
    end = {"t": {"0": 1_000, "1": 101, "2": 5}}
    assert limited(start, end, 10) == {"t": {"0": 10, "1": 101, "2": 5}}
    assert limited(start, end, 5_000) == end
    assert limited(start, end, None) == end
