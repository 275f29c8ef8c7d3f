"""`tidelog topics` against a running cluster: tidelog's own, or the one that `pytest --against` names.

The tests ask for nothing that Apache Kafka could not do: point them at one to see that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.against import Against
from tests.broker.running import set_at_run_time
from tests.cli.calling import Answer, call, refused
from tests.cli.clusters import eventually

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.kafka_client.admin import Admin

pytestmark = pytest.mark.slow


@dataclass
class Topics:
    """The command, and the cluster it is about."""

    servers: str
    cluster: Cluster | None

    def __call__(self, *arguments: str | Path) -> Answer:
        return call("topics", *arguments, "-b", self.servers, columns=120)

    def state_of(self, topic: str) -> dict[int, str]:
        (described,) = self("describe", topic, "--json").json
        return {part["partition"]: part["state"] for part in described["partitions"]}


@pytest.fixture(scope="module")
def topics(against: Against, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    if against.servers:
        yield Topics(against.servers, None)
        return
    with Cluster(ClusterSpec(brokers=3), tmp_path_factory.mktemp("cluster")) as cluster:
        yield Topics(cluster.bootstrap_servers, cluster)


@pytest.fixture
def name() -> str:
    return f"test-{uuid4().hex[:12]}"


def said(answer: Answer) -> str:
    assert answer.code == 0, answer
    assert answer.err == ""
    return answer.out


def test_a_topic_from_its_creation_to_its_end(topics: Topics, name: str):
    assert said(topics("create", name, "-p", "2", "-r", "3")) == f"created {name}: 2 partitions, 3 replicas\n"
    listed = said(topics("list")).splitlines()
    assert listed[0].split() == ["topic", "partitions", "replicas", "state"]
    assert [line.split() for line in listed if line.startswith(name)] == [[name, "2", "3", "ok"]]
    assert said(topics("partitions", name, "4")) == f"{name} has 4 partitions\n"
    assert len(topics("describe", name, "--json").json[0]["partitions"]) == 4
    assert said(topics("delete", name)) == f"deleted {name}\n"
    assert name not in said(topics("list"))


def test_a_topic_gets_what_the_cluster_gives_by_default(topics: Topics, name: str):
    """A cluster on one machine gives as many replicas as make it survive a broker."""
    if topics.cluster is None:
        pytest.skip("what another cluster's defaults are is not known")
    assert said(topics("create", name)) == f"created {name}: 1 partition, 3 replicas\n"


def test_a_description_has_everything_about_a_partition(topics: Topics, name: str):
    topics("create", name, "-p", "1", "-r", "3", "-c", "min.insync.replicas=2")
    lines = said(topics("describe", name)).splitlines()
    assert lines[0] == f"{name}  min.insync.replicas=2"
    heads = ["partition", "leader", "epoch", "replicas", "ISR", "start", "HW", "LEO", "state"]
    assert lines[1].split() == heads
    row = dict(zip(heads, lines[2].split(), strict=True))
    assert row["partition"] == "0"
    assert row["leader"] == row["replicas"].split(",")[0]
    assert sorted(row["ISR"].split(",")) == sorted(row["replicas"].split(","))
    assert (row["start"], row["HW"], row["LEO"], row["state"]) == ("0", "0", "0", "ok")


def test_offsets_follow_what_is_produced(topics: Topics, name: str):
    from confluent_kafka import Producer

    topics("create", name, "-p", "1", "-r", "3")
    producer = Producer({"bootstrap.servers": topics.servers, "acks": "all"})
    for number in range(5):
        producer.produce(name, str(number).encode())
    assert producer.flush(PATIENCE_SECONDS) == 0
    ((part,),) = [topic["partitions"] for topic in topics("describe", name, "--json").json]
    assert (part["start_offset"], part["high_watermark"], part["log_end_offset"]) == (0, 5, 5)


def test_settings_are_given_changed_and_taken_away(topics: Topics, name: str):
    def settings() -> dict[str, str]:
        found: dict[str, str] = topics("describe", name, "--json").json[0]["settings"]
        return found

    topics("create", name, "-c", "retention.ms=1000", "-c", "segment.bytes=1048576")
    assert settings() == {"retention.ms": "1000", "segment.bytes": "1048576"}
    assert said(topics("alter", name, "-c", "retention.ms=2000")) == f"altered {name}\n"
    assert settings() == {"retention.ms": "2000", "segment.bytes": "1048576"}
    said(topics("alter", name, "--delete-config", "segment.bytes"))
    assert settings() == {"retention.ms": "2000"}


def test_a_dead_broker_shows(topics: Topics, name: str):
    """Partitions of which it had a copy are under-replicated; one that only it had is leaderless."""
    if topics.cluster is None:
        pytest.skip("this cluster's brokers are not ours to kill")
    topics("create", f"{name}-three", "-p", "1", "-r", "3")
    topics("create", f"{name}-one", "-p", "3", "-r", "1")
    described = topics("describe", f"{name}-one", "--json").json[0]["partitions"]
    (lost,) = [part["partition"] for part in described if part["leader"] == 3]
    topics.cluster.kill(3)
    try:
        eventually(lambda: topics.state_of(f"{name}-three") == {0: "under-replicated"})
        eventually(lambda: topics.state_of(f"{name}-one")[lost] == "leaderless")
        shown = said(topics("describe", f"{name}-three"))
        assert "under-replicated: 3 not in sync" in shown
        assert "1 leaderless" in said(topics("list"))
    finally:
        topics.cluster.start_broker(3)
        topics.cluster.ready()


def test_a_topic_that_is_not_there_is_said_not_to_be(topics: Topics, name: str):
    missing = f"topic {name}: the topic does not exist (UNKNOWN_TOPIC_OR_PARTITION)"
    assert refused(topics("describe", name)) == missing
    for words in (("delete", name), ("partitions", name, "2"), ("alter", name, "-c", "retention.ms=1")):
        message = refused(topics(*words))
        assert message.startswith(f"topic {name}: ")
        assert message.endswith("(UNKNOWN_TOPIC_OR_PARTITION)")


def test_what_cannot_be_asked_is_refused_before_anybody_is(topics: Topics, name: str):
    nothing = "nothing to change: give --config NAME=VALUE or --delete-config NAME"
    assert refused(topics("alter", name)) == nothing
    assert refused(topics("create", name, "-c", "x")) == "'x': expected name=value, --config"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("-r", "99"), "INVALID_REPLICATION_FACTOR"),
        (("-c", "retention.ms=soon"), "INVALID_CONFIG"),
        (("-c", "retentoin.ms=1"), "INVALID_CONFIG"),
    ],
)
def test_what_the_cluster_refuses_is_passed_on(
    topics: Topics, name: str, options: tuple[str, ...], error: str
):
    message = refused(topics("create", name, *options))
    assert message.startswith(f"topic {name}: ")
    assert message.endswith(f"({error})")


def test_a_topic_is_not_created_twice(topics: Topics, name: str):
    topics("create", name)
    assert refused(topics("create", name)).endswith("(TOPIC_ALREADY_EXISTS)")
    assert refused(topics("partitions", name, "1")).endswith("(INVALID_PARTITIONS)")


def test_nobody_there_is_one_line(tmp_path: Path):
    answer = call("topics", "list", "-b", "127.0.0.1:1", XDG_STATE_HOME=str(tmp_path))
    assert refused(answer) == "127.0.0.1:1: connection refused; is the broker running?"
    several = call("topics", "list", "-b", "127.0.0.1:1,127.0.0.1:2")
    assert refused(several) == "none of 127.0.0.1:1,127.0.0.1:2 answers"
    assert "expected host:port" in refused(call("topics", "list", "-b", "host:x"))


def test_a_topic_is_moved_to_other_brokers(topics: Topics, name: str):
    topics("create", name, "-p", "2", "-r", "2")
    assert said(topics("reassign", name, "-r", "3,1")) == f"moved 2 partitions of {name} to 3,1\n"
    (described,) = topics("describe", name, "--json").json
    assert [part["replicas"] for part in described["partitions"]] == [[3, 1], [3, 1]]
    assert [(part["adding_replicas"], part["removing_replicas"]) for part in described["partitions"]] == [
        ([], []),
        ([], []),
    ]
    assert said(topics("reassign", name, "-r", "2", "-p", "1")) == f"moved 1 partition of {name} to 2\n"


def throttles(topics: Topics, name: str) -> tuple[dict[str, str], dict[int, set[str]]]:
    """What the topic has, and which rates each broker has."""
    with Admin(topics.servers) as admin:
        (view,) = admin.topics([name])
        admin.add_settings([view])
        return view.settings, {
            broker.node_id: set_at_run_time((broker.host, broker.port), broker.node_id)
            for broker in admin.metadata([]).brokers
        }


def test_a_throttle_is_set_for_a_move_and_removed_after_it(topics: Topics, name: str):
    """The replicas that have the records are throttled as leaders, the new ones as followers."""
    topics("create", name, "-p", "2", "-r", "1")
    assert said(topics("reassign", name, "-r", "1")) == f"moved 2 partitions of {name} to 1\n"
    during = said(topics("reassign", name, "-r", "2", "-p", "1", "--throttle", "5k", "--wait", "0"))
    assert during.splitlines() == [
        f"throttled {name}: 5,000 bytes a second from and to each of the brokers 1,2",
        f"moving 1 partition of {name} to 2",
        f"then remove the throttle: tidelog topics reassign {name} --unthrottle",
    ]
    rates = {"leader.replication.throttled.rate=5000", "follower.replication.throttled.rate=5000"}
    assert throttles(topics, name) == (
        {"leader.replication.throttled.replicas": "1:1", "follower.replication.throttled.replicas": "1:2"},
        {1: rates, 2: rates, 3: set()},
    )
    eventually(lambda: topics("describe", name, "--json").json[0]["partitions"][1]["replicas"] == [2])
    assert said(topics("reassign", name, "-r", "2,3", "--throttle", "1G")).splitlines() == [
        f"throttled {name}: 1,000,000,000 bytes a second from and to each of the brokers 1,2,3",
        f"moved 2 partitions of {name} to 2,3",
        f"removed the throttle of {name}",
    ]
    assert throttles(topics, name) == ({}, {1: set(), 2: set(), 3: set()})


def test_rates_stay_while_another_topic_is_throttled(topics: Topics, name: str):
    """A move that is refused leaves no throttle; nor does one that copies nothing set any."""
    other = f"{name}-other"
    for topic in (name, other):
        topics("create", topic, "-p", "1", "-r", "1")
        topics("reassign", topic, "-r", "1")
    topics("reassign", other, "-r", "3", "--throttle", "1G", "--wait", "0")
    assert "INVALID_REPLICA_ASSIGNMENT" in refused(topics("reassign", name, "-r", "2,99", "--throttle", "5k"))
    assert throttles(topics, name)[0] == {}
    kept = f"removed the throttle of {name}; the brokers keep their rates for {other}\n"
    assert said(topics("reassign", name, "--unthrottle")) == kept
    assert throttles(topics, other)[1][3] != set()
    assert said(topics("reassign", other, "--unthrottle")) == f"removed the throttle of {other}\n"
    assert throttles(topics, other) == ({}, {1: set(), 2: set(), 3: set()})
    assert (
        said(topics("reassign", name, "-r", "1", "--throttle", "5k")) == f"moved 1 partition of {name} to 1\n"
    )


def test_a_move_that_cannot_be_is_refused(topics: Topics, name: str):
    topics("create", name, "-p", "1", "-r", "1")
    for arguments, words in (
        ((), "--replicas N,N… or --cancel"),
        (("-r", "1", "--cancel"), "--replicas N,N… or --cancel"),
        (("-r", "one"), "--replicas: brokers' numbers"),
        (
            ("-r", "1", "--throttle", "fast"),
            "--throttle: bytes a second like 500000, 500k or 10M, and not 'fast'",
        ),
        (("-r", "1", "--throttle", "0"), "--throttle: bytes a second"),
        (("--cancel", "--throttle", "1"), "leave it out with --cancel"),
        (("-r", "1", "--unthrottle"), "--unthrottle stands alone"),
        (("--throttle", "1"), f"no partition of {name} is being moved"),
        (("-r", "1,1"), "INVALID_REPLICA_ASSIGNMENT"),
        (("-r", "99"), "INVALID_REPLICA_ASSIGNMENT"),
        (("--cancel",), f"no partition of {name} is being moved"),
    ):
        assert words in refused(topics("reassign", name, *arguments))
