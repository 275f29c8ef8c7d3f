"""Producers and consumers as processes, on a real broker: what they are told, what they write down."""

import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.processes import PATIENCE_SECONDS

from tidelog.cluster.cluster import Cluster
from tidelog.evidence.folder import EvidenceFolder, Manifest
from tidelog.evidence.parquet.parts import rows_of
from tidelog.evidence.parquet.recovery import seal_journals
from tidelog.evidence.tables import CLIENT_EVENTS, LEDGER, READS
from tidelog.trials.load.topic import Topic, TopicError
from tidelog.trials.load.workers import Worker
from tidelog.trials.load.workload import Workload

pytestmark = [pytest.mark.slow, pytest.mark.kafka(brokers=1)]

PARTITIONS = 3


@pytest.fixture
def topic(kafka_cluster: Cluster, request: pytest.FixtureRequest) -> Topic:
    configs = getattr(request, "param", {})
    return Topic.create(
        kafka_cluster.bootstrap_servers,
        f"t{time.time_ns()}",
        partitions=PARTITIONS,
        replication_factor=1,
        configs=configs,
        client={},
    )


@pytest.fixture
def folder(tmp_path: Path) -> EvidenceFolder:
    return EvidenceFolder.create(tmp_path / "evidence", Manifest("foreign"))


def eventually(check: Callable[[], bool], worker: Worker) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not check():
        assert worker.failure() is None, worker.failure()
        assert time.monotonic() < deadline, worker.status
        time.sleep(0.02)


def producers(kafka_cluster: Cluster, topic: Topic, folder: EvidenceFolder, **settings: Any) -> Worker:
    load = Workload(**({"rate": 500, "producers": 3} | settings))
    plans = load.producer_plans(topic.name, PARTITIONS, lambda name, zone: kafka_cluster.bootstrap_servers)
    return Worker("producers", "producers-1", plans, folder.path)


def ended(worker: Worker) -> None:
    assert worker.wait(PATIENCE_SECONDS)
    worker.close()


def test_every_send_has_a_row_and_every_record_is_read(
    kafka_cluster: Cluster, topic: Topic, folder: EvidenceFolder
):
    """With all kinds of acks, with keys and without; consumers follow, and drain to the very end."""
    load = Workload(consumers=2)
    plans = load.consumer_plans({topic.name: PARTITIONS}, lambda name, zone: kafka_cluster.bootstrap_servers)
    reading = Worker("consumers", "consumers-1", plans, folder.path)
    sending = producers(kafka_cluster, topic, folder, acks=(-1, 1, 0), producers=6)
    eventually(lambda: sending.status.get("ok", 0) > 300, sending)
    eventually(lambda: reading.status.get("reads", 0) > 100, reading)
    sending.stop()
    ended(sending)
    ends = topic.ends(PATIENCE_SECONDS)
    reading.drain({topic.name: {str(part): end for part, end in ends.items()}})
    ended(reading)
    assert seal_journals(folder).trouble == {}
    ledger = list(rows_of(folder.path, LEDGER))
    assert len(ledger) == sending.status["sent"] == sending.status["ok"]
    assert {row["outcome"] for row in ledger} == {"ok"}
    assert all(("offset" in row) == (row["acks"] != 0) for row in ledger)
    assert {row["partition"] for row in ledger} == set(range(PARTITIONS))
    assert {"key" in row for row in ledger} == {True, False}
    for consumer in ("c1", "c2"):
        reads = [row for row in rows_of(folder.path, READS) if row["consumer"] == consumer]
        assert sorted(row["value"] for row in reads) == sorted(row["value"] for row in ledger)
        assert all(row["position_before"] == row["offset"] for row in reads)
    crcs = {row["value"]: row["value_crc32"] for row in ledger}
    assert all(crcs[row["value"]] == row["value_crc32"] for row in rows_of(folder.path, READS))
    places = {row["value"]: (row["partition"], row["offset"]) for row in ledger if "offset" in row}
    found = {row["value"]: (row["partition"], row["offset"]) for row in rows_of(folder.path, READS)}
    assert all(found[value] == place for value, place in places.items())


def test_a_killed_producer_leaves_no_record_that_is_not_in_its_ledger(
    kafka_cluster: Cluster, topic: Topic, folder: EvidenceFolder
):
    """Whatever reached the broker had been written down before."""
    sending = producers(kafka_cluster, topic, folder, rate=3000)
    eventually(lambda: sending.status.get("ok", 0) > 1000, sending)
    os.kill(sending.pid, signal.SIGKILL)
    assert sending.wait(PATIENCE_SECONDS)
    assert "producers-1 ended with exit code -9" in (sending.failure() or "")
    sending.close()
    ends = {topic.name: {str(part): end for part, end in topic.ends(PATIENCE_SECONDS).items()}}
    plan = Workload().final_reader(
        {topic.name: PARTITIONS}, lambda name, zone: kafka_cluster.bootstrap_servers
    )
    final = Worker("consumers", "final", [plan], folder.path, ends=ends)
    ended(final)
    assert seal_journals(folder).trouble == {}
    ledger = {row["value"]: row for row in rows_of(folder.path, LEDGER)}
    written = {row["value"] for row in rows_of(folder.path, READS)}
    assert written <= ledger.keys()
    assert {value for value, row in ledger.items() if row["outcome"] == "ok"} <= written


def test_a_producer_whose_trial_is_gone_ends(kafka_cluster: Cluster, topic: Topic, folder: EvidenceFolder):
    """Its standard input ends, and it seals what it has."""
    sending = producers(kafka_cluster, topic, folder)
    eventually(lambda: sending.status.get("ok", 0) > 50, sending)
    sending.close()
    assert sending.is_done
    assert len(list(rows_of(folder.path, LEDGER))) == sending.status["sent"]


@pytest.mark.parametrize("topic", [{"max.message.bytes": "2000"}], indirect=True)
def test_a_record_that_is_too_large_certainly_failed(
    kafka_cluster: Cluster, topic: Topic, folder: EvidenceFolder
):
    sending = producers(kafka_cluster, topic, folder, value_bytes=5_000, rate=50)
    eventually(lambda: sending.status.get("failed", 0) > 10, sending)
    sending.stop()
    ended(sending)
    rows = list(rows_of(folder.path, LEDGER))
    assert {(row["outcome"], row["error"], row["error_code"]) for row in rows} == {
        ("failed", "MESSAGE_TOO_LARGE", 10)
    }
    assert sum(topic.ends(PATIENCE_SECONDS).values()) == 0


def test_what_nobody_answers_is_unknown(topic: Topic, folder: EvidenceFolder, tmp_path: Path):
    """The sends time out, one by one; what happened to the connections is written down too."""
    plans = Workload(rate=20, producers=1, delivery_timeout_ms=1_000).producer_plans(
        topic.name, PARTITIONS, lambda name, zone: "127.0.0.1:1"
    )
    sending = Worker("producers", "producers-1", plans, folder.path)
    eventually(lambda: sending.status.get("unknown", 0) > 5, sending)
    sending.stop()
    ended(sending)
    assert seal_journals(folder).trouble == {}
    rows = list(rows_of(folder.path, LEDGER))
    assert {(row["outcome"], row["error"]) for row in rows} == {("unknown", "_MSG_TIMED_OUT")}
    assert {row["client"] for row in rows_of(folder.path, CLIENT_EVENTS)} == {"p1"}


def test_a_disk_without_room_ends_the_load_in_one_line(
    kafka_cluster: Cluster, topic: Topic, folder: EvidenceFolder
):
    """Nothing is sent that cannot be written down. (The room is taken away by a limit of the process.)"""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
    try:
        sending = producers(kafka_cluster, topic, folder)
        assert sending.wait(PATIENCE_SECONDS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert sending.failure() == "producers-1 cannot write down what it does: file too large"
    sending.close()
    assert sum(topic.ends(PATIENCE_SECONDS).values()) == 0


# ---------------------------------------------------------------- the topic


def test_a_cluster_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidelog.trials.load.topic._REQUEST_SECONDS", 1.0)
    with pytest.raises(TopicError, match=r"no Kafka answers at 127\.0\.0\.1:1: "):
        Topic.create("127.0.0.1:1", "t", partitions=1, replication_factor=1, configs={}, client={})


def test_too_few_brokers_are_one_line(kafka_cluster: Cluster):
    with pytest.raises(TopicError, match="3 replicas on 1 broker: give --replication-factor"):
        Topic.create(
            kafka_cluster.bootstrap_servers, "t3", partitions=1, replication_factor=3, configs={}, client={}
        )


def test_a_topic_that_the_cluster_does_not_create_is_one_line(kafka_cluster: Cluster):
    with pytest.raises(TopicError, match=r"did not create topic t4: .* \(INVALID_CONFIG\)"):
        Topic.create(
            kafka_cluster.bootstrap_servers,
            "t4",
            partitions=1,
            replication_factor=1,
            configs={"min.insync.replicas": "many"},
            client={},
        )


def test_settings_that_the_client_library_does_not_know_are_one_line(kafka_cluster: Cluster):
    with pytest.raises(TopicError, match="the client library refuses its settings"):
        Topic.create(
            kafka_cluster.bootstrap_servers,
            "t5",
            partitions=1,
            replication_factor=1,
            configs={},
            client={"x": "y"},
        )
