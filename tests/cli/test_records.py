"""`tidelog produce`, `consume` and `groups` against a cluster: tidelog's own, or that of `--against`."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.against import Against
from tests.cli.calling import Answer, call, refused

from tidelog.cluster.cluster import Cluster
from tidelog.kafka_client.groups import assigned
from tidelog.kafka_client.partitioner import murmur2

pytestmark = pytest.mark.slow


@dataclass
class Records:
    """The commands, the cluster they are about, and a topic with three partitions."""

    servers: str
    cluster: Cluster | None
    topic: str

    def __call__(self, *arguments: str | Path) -> Answer:
        return call(*arguments, "-b", self.servers, columns=120)

    def says(self, *arguments: str | Path) -> str:
        answer = self(*arguments)
        assert (answer.code, answer.err) == (0, ""), answer
        return answer.out

    def values(self, *arguments: str) -> list[str]:
        return self.says("consume", self.topic, "--values", *arguments).splitlines()


@pytest.fixture(scope="module")
def at(against: Against, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Cluster | None]]:
    if against.servers:
        yield against.servers, None
        return
    with Cluster(brokers=3, data_dir=tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster.bootstrap_servers, cluster


@pytest.fixture
def records(at: tuple[str, Cluster | None]) -> Records:
    made = Records(*at, f"test-{uuid4().hex[:12]}")
    made.says("topics", "create", made.topic, "-p", "3")
    return made


def test_what_is_written_is_read(records: Records):
    said = records.says("produce", records.topic, "a", "b", "c", "d")
    assert said == (
        f"wrote 4 records to {records.topic}\n"
        "  partition 0: offset 0 to 1\n  partition 1: offset 0\n  partition 2: offset 0\n"
    )
    assert sorted(records.values()) == ["a", "b", "c", "d"]
    assert records.values("-p", "0") == ["a", "d"]
    assert records.values("-p", "0", "--from", "1") == ["d"]
    assert records.values("-p", "0", "--from", "-1") == ["d"]
    assert records.values("--from", "end") == []
    assert len(records.values("--max", "3")) == 3
    (line,) = records.says("consume", records.topic, "-p", "1").splitlines()
    assert line.startswith(f"{records.topic}-1  offset 0  20")
    assert line.endswith('Z  value "b"')


def test_keys_go_where_the_java_client_puts_them(records: Records):
    """The hashes are those of Kafka's own test of its hash."""
    hashes = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    assert {key: murmur2(key) for key in hashes} == {key: each & 0xFFFFFFFF for key, each in hashes.items()}
    records.says("produce", records.topic, "-k", "foobar", "1", "2")
    lines = records.says("consume", records.topic, "--json").splitlines()
    first, second = (json.loads(line)["partition"] for line in lines)
    assert first == second == (-790332482 & 0x7FFFFFFF) % 3


def test_lines_of_stdin_are_records(records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lines = tmp_path / "lines"
    lines.write_bytes(b"k:v:w\r\nk:\xff\nk:last")
    with lines.open(encoding="latin-1") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert records.says("produce", records.topic, "-s", ":").startswith("wrote 3 records")
    shown = [line.partition("key ")[2] for line in records.says("consume", records.topic).splitlines()]
    assert shown == ['"k"  value "v:w"', '"k"  value base64:/w==', '"k"  value "last"']


def test_many_records_survive_the_death_of_their_leader(records: Records):
    """Each is there once, and nothing but what the command waited for is on stderr."""
    if records.cluster is None:
        pytest.skip("this cluster's brokers are not ours to kill")
    with records.cluster.leader_of(records.topic, 0).kill():
        answer = records("produce", records.topic, "--count", "3000", "--timeout", str(PATIENCE_SECONDS))
        assert answer.code == 0, answer
        assert all(line.startswith("waiting: ") for line in answer.err.splitlines())
    assert sorted(map(int, records.values())) == list(range(1, 3001))


def test_a_record_that_is_not_acknowledged_is_an_error(records: Records):
    if records.cluster is None:
        pytest.skip("needs a partition without a leader")
    alone = f"{records.topic}-alone"
    records.says("topics", "create", alone, "-p", "1", "-r", "1")
    with records.cluster.leader_of(alone, 0).kill():
        answer = records("produce", alone, "--timeout", "0.5", "x")
        assert answer.code == 1
        assert answer.out == f"wrote 0 records to {alone}\n"
        assert answer.err.splitlines()[-1].startswith("tidelog: not acknowledged after 0.5 s: ")


def test_a_group_goes_on_where_it_stopped(records: Records):
    group = f"group-{records.topic}"
    records.says("produce", records.topic, "-p", "0", "a", "b", "c")
    assert records.values("--group", group, "--max", "2") == ["a", "b"]
    described = records("groups", "describe", group, "--json").json
    mine = {
        part["partition"]: (part["committed"], part["end"], part["lag"]) for part in described["partitions"]
    }
    assert mine[0] == (2, 3, 1)
    assert records.values("--group", group) == ["c"]
    assert records.values("--group", group) == []
    assert group in records.says("groups", "list")
    shown = records.says("groups", "describe", group).splitlines()
    assert shown[0] == f"{group}  Empty, 0 members"
    assert shown[2].split() == [f"{records.topic}-0", "3", "3", "0", "-"]
    said = records.says("groups", "reset", group, records.topic, "--to", "beginning")
    assert said == f"group {group} is at the beginning of {records.topic}\n"
    assert records.values("--group", group) == ["a", "b", "c"]
    assert records.says("groups", "delete", group) == f"deleted group {group}\n"
    assert refused(records("groups", "describe", group)).startswith(f"unknown group '{group}'")


def test_members_of_a_group_are_shown_with_what_they_own(records: Records):
    from confluent_kafka import Consumer

    group = f"group-{records.topic}"
    records.says("produce", records.topic, "a")
    settings = {"bootstrap.servers": records.servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "client.id": "app"})
    try:
        consumer.subscribe([records.topic])
        assert consumer.poll(PATIENCE_SECONDS) is not None
        consumer.commit(asynchronous=False)
        lines = records.says("groups", "describe", group).splitlines()
        assert lines[0] == f"{group}  Stable, 1 member"
        assert len(lines) == 5
        assert all(" app " in line for line in lines[2:])
        assert "has members" in refused(records("groups", "delete", group))
        assert "has members" in refused(records("groups", "reset", group, records.topic))
    finally:
        consumer.close()


def test_an_assignment_that_cannot_be_read_is_empty():
    assert assigned(b"") == {}
    assert assigned(b"\0\0\0\0\0\1\0\1t\x7f\xff\xff\xff") == {}
    assert assigned(b"\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\5\0\0\0\0") == {"t": [5]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("produce", "TOPIC", "x", "-p", "9"), "TOPIC has partitions 0 to 2, not 9"),
        (("consume", "TOPIC", "-p", "9"), "TOPIC has partitions 0 to 2, not 9"),
        (("consume", "TOPIC", "--from", "begining"), "--from begining: expected beginning, end, an offset"),
        (("consume", "TOPIC", "--values", "--json"), "choose one of --values and --json"),
        (("produce", "TOPIC", "x", "--count", "2"), "choose one of VALUE, --count and --key-separator"),
        (("produce", "TOPIC", "x", "--acks", "2"), "unknown acks '2'"),
        (("produce", "TOPIC-x", "x"), "topic TOPIC-x: the topic does not exist"),
        (("consume", "TOPIC-x"), "topic TOPIC-x: the topic does not exist"),
    ],
)
def test_wrong_usage_is_refused(records: Records, words: tuple[str, ...], message: str):
    answer = records(*(word.replace("TOPIC", records.topic) for word in words))
    assert refused(answer).startswith(message.replace("TOPIC", records.topic))
