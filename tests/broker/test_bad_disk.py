"""Disks that fail a broker: one that cannot sync ends it, one that refuses or is full costs it partitions."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from io import SEEK_END
from itertools import count
from pathlib import Path
from urllib.request import urlopen

import pytest
from bench.processes import PATIENCE_SECONDS
from bench.tools import Tool, find
from prometheus_client.parser import text_string_to_metric_families
from tests.broker import running
from tests.broker.running import eventually, known_at, properties, serving_port, started
from tests.clients import raw

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.kafka_client.admin import Admin, PartitionView
from tidelog.kafka_client.blocking import Client
from tidelog.wire.api_keys import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def keeper() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tidelog", "keeper", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process.stdout.readline().split()[1]
    process.terminate()
    process.wait(PATIENCE_SECONDS)
    process.stdout.close()


def broker_file(tmp_path: Path, keeper: str, **settings: str | int) -> Path:
    values: dict[str, str | int | Path] = {
        "broker.id": 1,
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": tmp_path / "logs",
        "tidelog.keeper": keeper,
        "zookeeper.session.timeout.ms": 1000,
    }
    values |= {name.replace("_", "."): value for name, value in settings.items()}
    return properties(tmp_path / "broker.properties", values)


def create(where: tuple[str, int], topic: str) -> None:
    def led() -> bool:
        with raw.Connection(where) as asking:
            asking.ask(raw.METADATA, raw.METADATA_VERSION, raw.metadata_body(topic, may_create=True))
        return any(part.leader >= 0 for part in known_at(where, topic))

    eventually(led, "the topic is there")


def write_until_refused(where: tuple[str, int], topic: str, value: bytes = b"x") -> tuple[int, int | None]:
    """Send records one by one; returns how many were acknowledged, and the error that ended it: none if the
    broker hung up."""
    acknowledged = 0
    with raw.Connection(where) as connection, suppress(raw.Closed):
        for _ in count():
            body = raw.produce_body(topic, raw.batch([value]), acks=1)
            produced = raw.produced(connection.ask(raw.PRODUCE, raw.PRODUCE_VERSION, body))
            if produced.error != raw.NONE:
                return acknowledged, produced.error
            acknowledged += 1
    return acknowledged, None


def read(where: tuple[str, int], topic: str) -> raw.Fetched | None:
    with raw.Connection(where) as connection:
        body = raw.fetch_body(topic, 0)
        fetched = raw.fetched(connection.ask(raw.FETCH, raw.FETCH_VERSION, body))
    return fetched if fetched.error == raw.NONE else None


def said_by(process: subprocess.Popen[str]) -> list[str]:
    """Everything that a process which has ended had logged."""
    assert process.stderr is not None
    said = process.stderr.read().splitlines()
    assert not any(line.startswith("Traceback") for line in said), said
    return said


@pytest.mark.parametrize("flush", ["always", "interval", "roll"])
def test_a_disk_that_cannot_sync_ends_the_broker(tmp_path: Path, keeper: str, flush: str):
    """With one line and exit code 1, whenever it is that logs are synced. What was acknowledged before is
    there when the broker is started again: here only the syncs failed, and not the disk."""
    strace = find(Tool.STRACE)  # which makes fdatasync fail
    topic = f"synced-{flush}"
    file = broker_file(
        tmp_path, keeper, tidelog_flush=flush, log_flush_interval_ms=10, log_segment_bytes=2000
    )
    inject = "inject=fdatasync:error=EIO:when=4+"
    with started(file, strace, "-f", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", inject) as broken:
        where = "127.0.0.1", serving_port(broken)
        create(where, topic)
        acknowledged, error = write_until_refused(where, topic)
        assert error in (None, ErrorCode.KAFKA_STORAGE_ERROR)
        assert broken.wait(PATIENCE_SECONDS) == 1
        critical = [line for line in said_by(broken) if " CRITICAL " in line]
    assert len(critical) == 1
    assert re.search(rf"stopping: .*/{topic}-0 failed: Input/output error; check the disk", critical[0])
    assert acknowledged > 0
    assert not (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
    with started(file) as mended:
        again = "127.0.0.1", serving_port(mended)
        fetched = eventually(lambda: read(again, topic), "it leads again")
        assert fetched is not None
        assert fetched.high_watermark >= acknowledged
        mended.send_signal(signal.SIGTERM)
        assert mended.wait(PATIENCE_SECONDS) == 0


def test_a_disk_that_is_full_refuses_writes_and_nothing_else(tmp_path: Path, keeper: str):
    """Logged in one line, however often a client tries. A limit on the file size simulates the full disk."""
    file = broker_file(tmp_path, keeper)
    limited = ("sh", "-c", 'ulimit -f 1000; exec "$@"', "sh")
    with started(file, *limited) as broker:
        where = "127.0.0.1", serving_port(broker)
        create(where, "full")
        acknowledged, error = write_until_refused(where, "full", b"x" * 20_000)
        assert acknowledged > 5
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        for _ in range(3):
            assert write_until_refused(where, "full", b"x" * 20_000) == (0, ErrorCode.KAFKA_STORAGE_ERROR)
        fetched = read(where, "full")
        assert fetched is not None
        assert fetched.high_watermark == acknowledged
        create(where, "other")
        with raw.Connection(where) as connection:
            body = raw.produce_body("other", raw.batch([b"y"]), acks=1)
            produced = raw.produced(connection.ask(raw.PRODUCE, raw.PRODUCE_VERSION, body))
        assert produced == raw.Produced(raw.NONE, 0)
        broker.send_signal(signal.SIGTERM)
        broker.wait(PATIENCE_SECONDS)
        (said,) = [line for line in said_by(broker) if " ERROR " in line]
    assert "full-0: " in said


def listed(client: Client, topic: str, timestamp: int) -> ListOffsetsPartitionResponse:
    question = ListOffsetsTopic(
        name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
    )
    answer = client.ask(Api.LIST_OFFSETS, ListOffsetsRequest(replica_id=-1, topics=[question]))
    found: ListOffsetsPartitionResponse = answer.topics[0].partitions[0]
    return found


def test_a_log_that_cannot_be_searched_is_an_answer(tmp_path: Path, keeper: str):
    """An offset by time is found in the records. If they are corrupt, the client gets an error; the ends of
    the log are known without them."""
    with started(broker_file(tmp_path, keeper)) as broker:
        where = "127.0.0.1", serving_port(broker)
        create(where, "rotten")
        with raw.Connection(where) as connection:
            body = raw.produce_body("rotten", raw.batch([b"y" * 100]), acks=1)
            assert raw.produced(connection.ask(raw.PRODUCE, raw.PRODUCE_VERSION, body)).error == raw.NONE
        with (tmp_path / "logs" / "rotten-0" / "00000000000000000000.log").open("r+b") as file:
            file.seek(-20, SEEK_END)
            file.write(b"?")
        with Client(*where) as client:
            assert listed(client, "rotten", 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            end = listed(client, "rotten", -1)
            assert (end.error_code, end.offset) == (ErrorCode.NONE, 1)
        broker.send_signal(signal.SIGTERM)
        broker.wait(PATIENCE_SECONDS)
        (said,) = [line for line in said_by(broker) if " ERROR " in line]
    assert "rotten-0: " in said


# ---------------------------------------------------------------- one bad disk in a cluster


def everywhere(cluster: Cluster, topic: str) -> list[PartitionView]:
    """The partitions of a topic as all brokers see them, one after the other."""
    return [part for number in cluster.pids for part in running.view(cluster, number, topic)]


def metric(cluster: Cluster, number: int, name: str) -> float:
    broker = next(broker for broker in cluster.brokers if broker.id == number)
    with urlopen(f"http://{broker.host}:{broker.metrics_port}/metrics", timeout=PATIENCE_SECONDS) as page:
        families = text_string_to_metric_families(page.read().decode())
    (value,) = [s.value for family in families for s in family.samples if s.name == name]
    return float(value)


def test_a_log_that_cannot_be_created_is_led_elsewhere_until_it_can(tmp_path: Path):
    """Something has the name of its folder. The cluster serves the old topic and the new one, the metadata
    of all brokers names the replica, and a metric and the log of its broker do. When the name is free it is
    taken back, and no broker is started for that."""
    lines = running.Lines()
    with Cluster(ClusterSpec(), tmp_path, on_line=lines) as cluster:
        pids = cluster.pids
        running.create(cluster, "old", replicas=3)
        in_the_way = [tmp_path / "broker-1" / f"new-{part}" for part in range(3)]
        in_the_way += [tmp_path / f"broker-{number}" / "alone-0" for number in pids]
        for path in in_the_way:
            path.touch()
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create("new", partitions=3, replicas=3, settings={})
            admin.create("alone", partitions=1, replicas=1, settings={})

        def goes_on_without() -> bool:
            parts = everywhere(cluster, "new")
            return len(parts) == 9 and all(
                (part.leader in (2, 3), sorted(part.isr), part.offline) == (True, [2, 3], [1])
                for part in parts
            )

        eventually(goes_on_without, "two of three replicas serve the new topic")
        eventually(
            lambda: (
                [(p.leader, p.offline == p.replicas) for p in everywhere(cluster, "alone")]
                == [(-1, True)] * 3
            ),
            "no leader of the topic without another replica",
        )
        assert running.produce(cluster, "new", ["a", "b"]) == []
        assert running.produce(cluster, "old", ["a", "b"]) == []
        assert running.consume(cluster, "old", 2) == [(0, "a"), (1, "b")]
        offline = [metric(cluster, number, "tidelog_offline_replicas") for number in (1, 2, 3)]
        assert (sum(offline), offline[0] >= 3) == (4, True)
        assert "new-0 (cannot create" in lines.only(" ERROR ", "new-0")
        for path in in_the_way:
            path.unlink()
        cluster.wait_isr("new", 3)
        cluster.leader_of("alone")
        assert running.produce(cluster, "alone", ["a"]) == []
        running.wait_until_equal(cluster, "new")
        eventually(lambda: not any(part.offline for part in everywhere(cluster, "new")), "none is offline")
        assert [metric(cluster, number, "tidelog_offline_replicas") for number in (1, 2, 3)] == [0, 0, 0]
        assert cluster.pids == pids
    running.without_tracebacks(line for _, line in lines.said)


def test_a_log_that_cannot_be_opened_costs_its_partition_until_it_is_mended(tmp_path: Path):
    """At the start of its broker. What else the broker has is in sync again; the controller asks for the
    replica until its file is mended, and no broker is started for that."""
    lines = running.Lines()
    with Cluster(ClusterSpec(), tmp_path, on_line=lines) as cluster:
        for topic in ("whole", "torn"):
            running.create(cluster, topic, replicas=3)
            assert running.produce(cluster, topic, ["a", "b"]) == []
        cluster.broker(1).stop()
        damaged = tmp_path / "broker-1" / "torn-0" / "leader-epoch-checkpoint"
        sound = damaged.read_text()
        damaged.write_text("nonsense")
        cluster.broker(1).start()
        cluster.wait_isr("whole", 3)
        eventually(
            lambda: (
                [(p.leader in (2, 3), p.offline) for p in everywhere(cluster, "torn")] == [(True, [1])] * 3
            ),
            "two of three replicas serve the topic",
        )
        assert running.produce(cluster, "torn", ["c"]) == []
        assert metric(cluster, 1, "tidelog_offline_replicas") == 1
        assert "leader-epoch-checkpoint is not a checkpoint" in lines.only(" ERROR ", "torn-0")
        pids = cluster.pids
        damaged.write_text(sound)
        cluster.wait_isr("torn", 3)
        running.wait_until_equal(cluster, "torn")
        assert metric(cluster, 1, "tidelog_offline_replicas") == 0
        assert cluster.pids == pids
    running.without_tracebacks(line for _, line in lines.said)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB for the data of broker 1, where one may be mounted."""
    path = tmp_path / "broker-1"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def is_in_sync_without(cluster: Cluster, topic: str, number: int) -> bool:
    return number not in running.partition(cluster, topic).isr


def test_others_go_on_when_the_disk_of_a_broker_is_full(tmp_path: Path, small_disk: Path):
    """It leads what it led until it has to write. Then others do, at once and not when it has lagged behind
    for long enough; what it follows does not wait for it. With room again it catches up."""
    lines = running.Lines()
    patient = {"replica.lag.time.max.ms": "600000", "auto.leader.rebalance.enable": "false"}
    with Cluster(ClusterSpec(settings=patient), tmp_path, on_line=lines) as cluster:
        pids, topics = cluster.pids, ("a", "b", "c")
        for topic in topics:
            running.create(cluster, topic, replicas=3)
        assert {running.partition(cluster, topic).leader for topic in topics} == {1, 2, 3}
        ballast = small_disk / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4_096))
        large = "x" * 20_000
        for topic in topics:
            assert running.produce(cluster, topic, [large] * 3) == []
        for topic in topics:
            eventually(partial(is_in_sync_without, cluster, topic, 1), topic)
        ballast.unlink()
        for topic in topics:
            cluster.wait_isr(topic, 3)
            running.wait_until_equal(cluster, topic)
        assert cluster.pids == pids
    running.without_tracebacks(line for _, line in lines.said)
