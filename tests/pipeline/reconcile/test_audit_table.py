"""``tidelog audit --topic … --table …``: the command, over log folders and over a live cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from tests.pipeline.reconcile.specimens import made, written

from tidelog.cli.commands.audit_table import TableOptions, audit_table
from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.errors import Refusal
from tidelog.kafka_client.admin import Admin
from tidelog.pipeline import continuity
from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.reconcile.facts import AbsenceCause, Presence


def table_of(spark: SparkSession, folder: Path, offsets: list[int], partition: int = 0) -> str:
    rows = [("t", partition, each) for each in offsets]
    spark.createDataFrame(rows, "topic string, partition int, kafka_offset bigint").write.parquet(str(folder))
    return str(folder)


def test_the_command(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code, text and JSON; a second run with the same state judges what is new."""
    logs = [str(written(tmp_path / "t-0", made([("plain", 0, 12)])).parent)]
    table = table_of(spark, tmp_path / "table", [0, 1, 2, 5, 5, 6, 7, 8])
    options = TableOptions("t", table, logs=logs, columns=["offset=kafka_offset"])
    options.state = str(tmp_path / "state")
    options.report = tmp_path / "report.html"
    assert audit_table(options) == 1
    page = options.report.read_text("utf-8")
    options.report = None
    for shown in (
        *("2 offsets lost in the pipeline, 1 twice", "77.7778 %", "3 to 4", "t-0 offset 3"),
        *("流水线丢失 2 个位移，1 个重复", "3 至 4", "t-0 位移 3"),
    ):
        assert shown in page
    out = " ".join(capsys.readouterr().out.split())  # however it is wrapped
    assert "2 offsets lost in the pipeline, 1 twice" in out
    assert "77.7778 % of 9 records" in out
    assert "t-0 3 to 4: absent, unexplained" in out
    assert "3 offsets not yet in the table" in out
    options.as_json = True
    assert audit_table(options) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["offsets"], found["earlier_accused"], found["absent"]) == (
        3,
        3,
        {"not yet in the table": 3},
    )


def test_earlier_versions_of_the_table(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows that only they have were removed by maintenance, not lost. A version is a number only where the
    format keeps versions."""
    logs = [str(written(tmp_path / "t-0", made([("plain", 0, 6)])).parent)]
    table = table_of(spark, tmp_path / "table", [1, 3, 4, 5])
    copy = table_of(spark, tmp_path / "copy", [0, 1, 3])
    options = TableOptions("t", table, logs=logs, columns=["offset=kafka_offset"], history=[copy])
    options.as_json = True
    assert audit_table(options) == 1
    assert json.loads(capsys.readouterr().out)["absent"] == {
        AbsenceCause.MAINTENANCE: 1,
        AbsenceCause.UNEXPLAINED: 1,
    }
    options.history = ["17"]
    with pytest.raises(PipelineError, match="17 cannot be read as parquet: there is nothing"):
        audit_table(options)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"topic": None}, "--table needs --topic"),
        ({"columns": ["offset"]}, "write ROLE=NAME"),
        ({"columns": ["ofset=o"]}, "offset"),
        ({"since": "yesterday"}, "write a time such as"),
        ({"since": "2026-01-02", "until": "2026-01-01"}, "--since must be before --until"),
        ({"since": "2026-01-02", "state": "s"}, "choose one of --state"),
        ({"logs": []}, "name the topic's source"),
        ({"logs": ["/dev/null/nowhere"]}, "no such file or folder"),
        ({"format": "csv"}, "give one of parquet"),
        ({"logs": [], "bootstrap_servers": "127.0.0.1:1"}, "127.0.0.1:1"),
    ],
)
def test_refusals_before_spark(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    """One line, and nothing is started."""
    options = TableOptions("t", str(tmp_path), logs=[str(written(tmp_path / "t-0", made([("plain", 0, 1)])))])
    for name, changed in changes.items():
        setattr(options, name, changed)
    with pytest.raises(Refusal) as refused:
        audit_table(options)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_live_topic(spark: SparkSession, tmp_path: Path) -> None:
    """Read from brokers, by workers, values included; then the leader is away."""
    with Cluster(ClusterSpec(brokers=1), tmp_path / "cluster") as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("t", 2, 1)])["t"].result(60)
        producer = Producer({"bootstrap.servers": servers})
        for number in range(20):
            producer.produce("t", b"%d" % number, partition=number % 2)
        assert producer.flush(60) == 0
        rows = [("t", n % 2, n // 2, str(n) if n != 6 else "six") for n in range(18) if n != 5]
        table = spark.createDataFrame(rows, "topic string, partition int, offset bigint, text string")
        found = continuity(spark, topic="t", table=table, bootstrap_servers=servers, value_column="text")
        assert found.counts == {
            (Presence.ONCE, None): 16,
            (Presence.DIFFERENT, None): 1,
            (Presence.ABSENT, AbsenceCause.UNEXPLAINED): 1,
            (Presence.ABSENT, AbsenceCause.NOT_YET): 2,
        }
        assert [(r.partition, r.start, r.presence) for r in found.accused_ranges] == [
            (0, 3, Presence.DIFFERENT),
            (1, 2, Presence.ABSENT),
        ]
        with pytest.raises(PipelineError, match="topic nothing"):
            continuity(spark, topic="nothing", table=table, bootstrap_servers=servers)
    with pytest.raises(PipelineError) as away:
        continuity(spark, topic="t", table=table, bootstrap_servers=servers)
    assert "\n" not in str(away.value)
    assert servers in str(away.value)


def test_a_live_topic_that_is_created_again(spark: SparkSession, tmp_path: Path) -> None:
    """Between two runs with a state: its id is another one, so nothing was truncated."""
    with Cluster(ClusterSpec(brokers=1), tmp_path / "cluster") as cluster:
        servers, state = cluster.bootstrap_servers, str(tmp_path / "state")

        def run(values: list[str], rows: int) -> dict[tuple[Presence, AbsenceCause | None], int]:
            cluster.topic("t")
            producer = Producer({"bootstrap.servers": servers})
            for value in values:
                producer.produce("t", value)
            assert producer.flush(60) == 0
            table = spark.createDataFrame(
                [("t", 0, offset) for offset in range(rows)], "topic string, partition int, offset bigint"
            )
            found = continuity(spark, topic="t", table=table, bootstrap_servers=servers, state=state)
            with Admin(servers) as admin:
                admin.delete("t")
            return dict(found.counts)

        assert run(["a"] * 9, 6) == {
            (Presence.ONCE, None): 6,
            (Presence.ABSENT, AbsenceCause.NOT_YET): 3,
        }
        assert run(["b"] * 4, 6) == {
            (Presence.ONCE, None): 4,
            (Presence.EARLIER_TOPIC, None): 2,
            (Presence.ABSENT, AbsenceCause.RECREATED): 3,
        }
