"""Partitions that clients and Kafka's own tool move from broker to broker, under load."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import kafka  # type: ignore[import-untyped]
import pytest
from bench.apache_kafka import run_tool
from bench.processes import eventually
from bench.tidelog_up import TidelogUp
from kafka.structs import TopicPartition  # type: ignore[import-untyped]
from tests.broker.running import set_at_run_time
from tests.clients.conftest import Cluster, Topics, watched_up
from tests.clients.drivers.base import Outgoing
from tests.clients.drivers.confluent import Confluent

from tidelog.kafka_client import throttles
from tidelog.kafka_client.admin import Admin, Refused
from tidelog.wire.errors import ErrorCode

pytestmark = pytest.mark.slow

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


class Four:
    """A cluster of four brokers, so that there is one more than replicas."""

    def __init__(self, system: TidelogUp, data: Path) -> None:
        self.system = system
        self._data = data
        self.servers = system.bootstrap_servers
        self.ids = sorted(system.nodes)
        self.topics = Topics(Cluster(self.servers))

    def topic(self, *lists: tuple[int, ...]) -> str:
        """A topic whose partitions are on these brokers."""
        name = self.topics.name()
        with Admin(self.servers) as admin:
            admin.create(name, assignment=lists)
        self.topics.wait_until_known(name, len(lists))
        return name

    def replicas(self, topic: str) -> list[list[int]]:
        """Of each partition, if they are in sync."""
        with Admin(self.servers) as admin:
            (view,) = admin.topics([topic])
        return [
            part.replicas if sorted(part.isr) == sorted(part.replicas) else [] for part in view.partitions
        ]

    def holds(self, topic: str, *lists: list[int]) -> bool:
        return self.replicas(topic) == list(lists)

    def folders(self, topic: str) -> list[tuple[int, str]]:
        """Which broker has a log of which partition on its disk."""
        return sorted(
            (number, folder.name)
            for number in self.ids
            for folder in (self._data / f"broker-{number}").glob(f"{topic}-[0-9]*")
        )

    def throttles(self, topic: str) -> tuple[dict[str, str], dict[int, set[str]]]:
        """The settings of the topic, and the rates of each broker."""
        with Admin(self.servers) as admin:
            views = admin.topics([topic])
            admin.add_settings(views)
            brokers = admin.metadata([]).brokers
        rates = {
            broker.node_id: {
                setting.partition("=")[2]
                for setting in set_at_run_time((broker.host, broker.port), broker.node_id)
            }
            for broker in brokers
        }
        return views[0].settings, rates

    def command(self, *arguments: str) -> str:
        return run_tool(REASSIGN, "--bootstrap-server", self.servers, *arguments)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Four]:
    data = tmp_path_factory.mktemp("four") / "data"
    with watched_up(data, brokers=4) as system:
        yield Four(system, data)


def plan(path: Path, topic: str, *lists: list[int]) -> str:
    partitions = [
        {"topic": topic, "partition": number, "replicas": replicas} for number, replicas in enumerate(lists)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def test_kafkas_tool_moves_a_topic(four: Four, tmp_path: Path) -> None:
    """It proposes, executes and verifies: the records are on the new brokers, the old have nothing left."""
    a, b, c, d = four.ids
    topic = four.topic((a, b), (b, a))
    client = Confluent(four.servers)
    client.produce(topic, [Outgoing(b"%d" % number, partition=number % 2) for number in range(100)])
    wanted = tmp_path / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    proposal = four.command(
        "--generate", "--topics-to-move-json-file", str(wanted), "--broker-list", f"{c},{d}"
    )
    assert {c, d} == {
        broker
        for part in json.loads(proposal.rstrip().splitlines()[-1])["partitions"]
        for broker in part["replicas"]
    }
    moves = plan(tmp_path / "plan.json", topic, [c, d], [d, c])
    said = four.command("--execute", "--reassignment-json-file", moves)
    assert "Successfully started partition reassignments" in said
    eventually(lambda: four.replicas(topic) == [[c, d], [d, c]], "the topic has moved")
    verified = four.command("--verify", "--reassignment-json-file", moves)
    assert verified.count("is completed") == 2
    assert "No partition reassignments found" in four.command("--list")
    eventually(
        lambda: (
            four.folders(topic)
            == [(c, f"{topic}-0"), (c, f"{topic}-1"), (d, f"{topic}-0"), (d, f"{topic}-1")]
        ),
        "old logs are deleted",
    )
    assert len(client.read(topic, 0, 50)) == len(client.read(topic, 0, 50, partition=1)) == 50


def test_kafkas_tool_throttles_a_move(four: Four, tmp_path: Path) -> None:
    """It would take hours, until the tool changes the rate. Verifying the end removes the throttle."""
    a, b, c, d = four.ids
    topic = four.topic((a, b))
    client = Confluent(four.servers)
    client.produce(topic, [Outgoing(b"x" * 500_000) for _ in range(8)])
    moves = ("--reassignment-json-file", plan(tmp_path / "plan.json", topic, [c, b]))
    said = four.command("--execute", *moves, "--throttle", "1000")
    assert "The inter-broker throttle limit was set to 1000 B/s" in said
    assert "Successfully started partition reassignment" in said
    lists = {throttles.LEADERS: f"0:{a},0:{b}", throttles.FOLLOWERS: f"0:{c}"}
    assert four.throttles(topic) == (lists, {a: {"1000"}, b: {"1000"}, c: {"1000"}, d: set()})
    eventually(lambda: four.folders(topic) == [(n, f"{topic}-0") for n in (a, b, c)], "the move begins")
    client.produce(topic, [Outgoing(b"meanwhile")])
    assert "is still in progress" in four.command("--verify", *moves)
    assert four.throttles(topic)[0] == lists, "it stays while partitions move"
    four.command("--execute", "--additional", *moves, "--throttle", "100000000")
    eventually(partial(four.holds, topic, [c, b]), "it has moved")
    said = four.command("--verify", *moves)
    assert "is completed" in said
    assert "Clearing broker-level throttles" in said
    assert f"Clearing topic-level throttles on topic {topic}" in said
    assert four.throttles(topic) == ({}, {number: set() for number in four.ids})
    assert len(client.read(topic, 0, 9)) == 9


def test_kafkas_tool_lists_and_cancels_a_move(four: Four, tmp_path: Path) -> None:
    """To a broker that dies, so that the move does not end."""
    with Admin(four.servers) as admin:
        controller = admin.metadata([]).controller_id
        a, b, dead = [number for number in four.ids if number != controller]
        topic = four.topic((a, b))
        four.system.pause_broker(dead)
        admin.reassign(topic, {0: [a, dead]})
    four.system.kill_broker(dead)
    moves = plan(tmp_path / "plan.json", topic, [a, dead])
    try:
        listed = four.command("--list")
        assert f"{topic}-0: replicas: {a},{dead},{b}. adding: {dead}. removing: {b}." in listed
        # The tool waits for every broker of the plan when it removes throttles.
        asked = ("--reassignment-json-file", moves, "--preserve-throttles")
        assert "is still in progress" in four.command("--verify", *asked)
        assert "Successfully cancelled partition reassignment" in four.command("--cancel", *asked)
        eventually(partial(four.holds, topic, [a, b]), "it is where it was")
    finally:
        four.system.start_broker(dead)
    eventually(lambda: four.folders(topic) == [(a, f"{topic}-0"), (b, f"{topic}-0")], "nothing is left")


def test_kafka_python_moves_a_topic_while_it_is_written_to(four: Four) -> None:
    """Every record acknowledged before, meanwhile and afterwards is there."""
    a, b, c, d = four.ids
    topic = four.topic((a, b, c))
    client = Confluent(four.servers)
    admin = kafka.KafkaAdminClient(bootstrap_servers=four.servers)
    sent = 0
    try:
        for target in ([d, b, c], [c, d], [a, b, c]):
            tp = TopicPartition(topic, 0)
            admin.alter_partition_reassignments({tp: target})
            for _ in range(20):
                client.produce(topic, [Outgoing(b"%d" % sent)], idempotent=True)
                sent += 1
            eventually(partial(four.holds, topic, target), f"it is on {target}")
            assert admin.list_partition_reassignments({topic: [0]}) in ({}, [], None)
    finally:
        admin.close()
    found = [record.value for record in client.read(topic, 0, sent)]
    assert found == [b"%d" % number for number in range(sent)]


def test_wrong_moves_are_refused(four: Four) -> None:
    a, b, *_ = four.ids
    topic = four.topic((a, b))
    with Admin(four.servers) as admin:
        for wanted, code in (
            ({0: []}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ({0: [a, a]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ({0: [a, 99]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ({7: [a]}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ({0: None}, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ):
            with pytest.raises(Refused) as refused:
                admin.reassign(topic, wanted)
            assert refused.value.code == code
    assert four.replicas(topic) == [[a, b]]
