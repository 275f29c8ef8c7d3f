"""A broker's settings: Kafka's names and defaults, complaints that say where to look, the docs."""

import runpy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tidelog.core.config import BrokerConfig
from tidelog.settings.broker import BROKER, Settings
from tidelog.settings.kinds import Endpoint
from tidelog.settings.loading import Level, Loaded, load, settle
from tidelog.settings.properties import dump, parse
from tidelog.settings.table import REQUIRED, SettingsError
from tidelog.settings.topic import LogConfig, topic_defaults

ROOT = Path(__file__).resolve().parents[2]
LEAST = "broker.id=1\nzookeeper.connect=zk:2181\n"


def settled(text: str) -> Loaded:
    return settle(parse(LEAST + text, "broker.properties"))


def settings(text: str = "") -> Settings:
    return settled(text).settings


def refusal(text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        settled(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults_are_those_of_kafka():
    """As Apache Kafka 2.7 documents them, for the settings people rely on without setting them."""
    expected: dict[str, Any] = {
        "zookeeper.session.timeout.ms": 18000,
        "num.partitions": 1,
        "default.replication.factor": 1,
        "auto.create.topics.enable": True,
        "min.insync.replicas": 1,
        "unclean.leader.election.enable": False,
        "replica.lag.time.max.ms": 30000,
        "replica.fetch.wait.max.ms": 500,
        "replica.fetch.backoff.ms": 1000,
        "replica.fetch.max.bytes": 1048576,
        "replica.fetch.response.max.bytes": 10485760,
        "replica.high.watermark.checkpoint.interval.ms": 5000,
        "controlled.shutdown.enable": True,
        "controlled.shutdown.max.retries": 3,
        "controlled.shutdown.retry.backoff.ms": 5000,
        "controller.socket.timeout.ms": 30000,
        "message.max.bytes": 1048588,
        "socket.request.max.bytes": 104857600,
        "max.connections": 2147483647,
        "connections.max.idle.ms": 600000,
        "queued.max.requests": 500,
        "fetch.max.bytes": 57671680,
        "log.segment.bytes": 1073741824,
        "log.roll.hours": 168,
        "log.retention.hours": 168,
        "log.retention.bytes": -1,
        "log.retention.check.interval.ms": 300000,
        "log.flush.interval.messages": 9223372036854775807,
        "log.flush.offset.checkpoint.interval.ms": 60000,
        "log.index.interval.bytes": 4096,
        "log.index.size.max.bytes": 10485760,
        "log.message.timestamp.type": "CreateTime",
        "auto.leader.rebalance.enable": True,
        "leader.imbalance.check.interval.seconds": 300,
        "leader.imbalance.per.broker.percentage": 10,
        "delete.topic.enable": True,
        "compression.type": "producer",
        "offsets.topic.num.partitions": 50,
        "offsets.topic.replication.factor": 3,
    }
    defaults = settings()
    for name, value in expected.items():
        assert getattr(defaults, BROKER[name].attribute) == value, name


def test_the_core_has_the_same_defaults():
    """The defaults of the simulator are the defaults of a broker."""
    assert settings().core_config() == BrokerConfig()


def test_the_core_is_told_every_setting_it_obeys():
    """None of its fields is left at its default when the broker's is changed."""
    changed = settings(
        "replica.lag.time.max.ms=40000\nreplica.lag.max.messages=7\ntidelog.isr.rule=message-lag\n"
        "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector\n"
        "tidelog.isr.notification.interval.ms=7\nreplica.fetch.wait.max.ms=7\nreplica.fetch.backoff.ms=7\n"
        "replica.high.watermark.checkpoint.interval.ms=7\ncontrolled.shutdown.max.retries=7\n"
        "controlled.shutdown.retry.backoff.ms=7\ncontroller.socket.timeout.ms=7\nnum.partitions=7\ndefault.replication.factor=7\n"
        "min.insync.replicas=7\nunclean.leader.election.enable=true\nunclean.leader.election.interval.ms=7\n"
    ).core_config()
    untold = [
        field.name
        for field in fields(BrokerConfig)
        if getattr(changed, field.name) == getattr(BrokerConfig(), field.name)
    ]
    assert untold == []


def test_a_file_of_apache_kafka_starts_a_broker():
    """The sample that Kafka ships, comments left out: nothing in it is refused or unknown."""
    loaded = settled(
        """
        num.network.threads=3
        num.io.threads=8
        socket.send.buffer.bytes=102400
        socket.receive.buffer.bytes=102400
        socket.request.max.bytes=104857600
        log.dirs=/tmp/kafka-logs
        num.partitions=1
        num.recovery.threads.per.data.dir=1
        offsets.topic.replication.factor=1
        transaction.state.log.replication.factor=1
        transaction.state.log.min.isr=1
        log.retention.hours=168
        log.segment.bytes=1073741824
        log.retention.check.interval.ms=300000
        zookeeper.connect=localhost:2181
        zookeeper.connection.timeout.ms=18000
        group.initial.rebalance.delay.ms=0
        """
    )
    (remark,) = loaded.remarks
    assert remark.level is Level.NOTE
    assert remark.text.startswith(
        "settings of Kafka without effect here: num.io.threads, num.network.threads,"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("log.segment.bytes=abc", "log.segment.bytes=abc: expected an integer"),
        ("log.segment.bytes=1_000", "log.segment.bytes=1_000: expected an integer"),
        ("log.segment.bytes=", "log.segment.bytes=: expected an integer"),
        ("log.segment.bytes=1", "log.segment.bytes=1: expected an integer of at least 14"),
        (
            "log.segment.bytes=2147483648",
            "log.segment.bytes=2147483648: expected an integer of at most 2147483647",
        ),
        (
            "offsets.topic.num.partitions=101",
            "offsets.topic.num.partitions=101: expected an integer of at most 100",
        ),
        ("auto.create.topics.enable=yes", "auto.create.topics.enable=yes: expected true or false"),
        (
            "tidelog.generation=raft",
            "tidelog.generation=raft: expected one of hw, kip101, epoch, elr, majority",
        ),
        ("tidelog.flush=never", "tidelog.flush=never: expected one of always, interval, roll"),
        ("log.dirs=/a,/b", "log.dirs=/a,/b: expected one directory, several are not supported"),
        ("log.dir=/a,/b", "log.dir=/a,/b: expected one directory, several are not supported"),
        ("listeners=127.0.0.1:9092", "listeners=127.0.0.1:9092: expected PLAINTEXT://host:port"),
        (
            "listeners=SSL://h:1",
            "listeners=SSL://h:1: expected PLAINTEXT://host:port: only plain text connections are supported",
        ),
        ("listeners=PLAINTEXT://h:99999", "listeners=PLAINTEXT://h:99999: expected host:port, not 'h:99999'"),
        ("node.id=-1", "node.id=-1: expected an integer of at least 0"),
        (
            "tidelog.keeper=redis://h:1",
            "tidelog.keeper=redis://h:1: expected embedded://host:port or zookeeper://host:port,…/chroot",
        ),
        ("tidelog.metrics.port=x", "tidelog.metrics.port=x: expected an integer"),
    ],
)
def test_a_wrong_value_is_refused_with_its_line(text: str, message: str):
    assert refusal(f"\n{text}\n") == f"{message}, line 4 of broker.properties"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tidelog.keeper=embedded://h:1",
            "two keepers: set only one of zookeeper.connect and tidelog.keeper",
        ),
        ("zookeeper.connect=", "no keeper: set zookeeper.connect=host:port or tidelog.keeper=URL"),
        (
            "advertised.listeners=PLAINTEXT://0.0.0.0:9092",
            "advertised.listeners: name a host that clients can connect to",
        ),
        (
            "replica.lag.time.max.ms=100",
            "replica.fetch.wait.max.ms exceeds replica.lag.time.max.ms: idle replicas would leave the ISR",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(text: str, message: str):
    assert refusal(text) == message


def test_a_broker_needs_an_id():
    with pytest.raises(SettingsError, match=r"broker\.id is missing: the broker's id in the cluster"):
        settle(parse("zookeeper.connect=h", "x"))


def test_overrides_come_last_and_say_where_they_are_from(tmp_path: Path):
    path = tmp_path / "b.properties"
    path.write_text(LEAST + "num.partitions=3\n", "utf-8")
    assert load(path, ["num.partitions=4"]).settings.num_partitions == 4
    with pytest.raises(SettingsError, match=r"num\.partitions=x: expected an integer, --override"):
        load(path, ["num.partitions=x"], option="--override")
    with pytest.raises(SettingsError, match=r"'num\.partitions': expected name=value, --set"):
        load(path, ["num.partitions"])
    with pytest.raises(
        SettingsError, match=r"unknown setting 'num\.partition': did you mean num\.partitions"
    ):
        load(path, ["num.partition=4"])
    assert load(path, ["ssl.protocol=x", "port=1", "log.dir=x"]).settings.num_partitions == 3
    with pytest.raises(SettingsError, match=r"gone\.properties: no such file"):
        load(tmp_path / "gone.properties")


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        (
            "log.segment.byte=1",
            "unknown setting log.segment.byte, line 3 of broker.properties: did you mean log.segment.bytes?",
        ),
        (
            "retention.ms=1",
            "unknown setting retention.ms, line 3 of broker.properties: did you mean log.retention.ms?",
        ),
        ("zzz=1", "unknown setting zzz, line 3 of broker.properties"),
        ("port=1", "port has no effect, line 3 of broker.properties: set listeners instead"),
        (
            "authorizer.class.name=X",
            "authorizer.class.name has no effect: connections are neither encrypted nor authenticated, "
            "line 3 of broker.properties",
        ),
        (
            "compression.type=zstd",
            "compression.type=zstd has no effect: batches stay as producers send them",
        ),
    ],
)
def test_what_has_no_effect_is_warned_about(text: str, remark: str):
    """In one line, with the nearest known name; the broker still starts."""
    assert settled(text).remarks == [(Level.WARNING, remark)]


def test_the_keeper_is_one_url():
    assert settings().keeper_url == "zookeeper://zk:2181"
    assert settings("zookeeper.connect=a,b:1/x/y/").keeper_url == "zookeeper://a:2181,b:1/x/y"
    assert (
        settle(parse("broker.id=1\ntidelog.keeper=embedded://h:1", "x")).settings.keeper_url
        == "embedded://h:1"
    )


def test_what_clients_are_told_to_connect_to():
    """The advertised listener, else the listener with the port it got; never a host that clients cannot
    reach."""
    assert settings("listeners=PLAINTEXT://10.0.0.1:0").advertised(5000) == Endpoint("10.0.0.1", 5000)
    advertised = "listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://kafka.example:9092"
    assert settings(advertised).advertised(9092) == Endpoint("kafka.example", 9092)
    assert settings("listeners=PLAINTEXT://[::1]:7").listeners == Endpoint("::1", 7)
    assert settings("listeners=PLAINTEXT://0.0.0.0:1").advertised(1).host not in ("", "0.0.0.0")


@pytest.mark.parametrize(
    ("text", "retention_ms", "roll_ms"),
    [
        ("", 604_800_000, 604_800_000),
        ("log.retention.hours=1\nlog.roll.hours=2", 3_600_000, 7_200_000),
        ("log.retention.hours=1\nlog.retention.minutes=2", 120_000, 604_800_000),
        ("log.retention.minutes=2\nlog.retention.ms=3\nlog.roll.ms=4", 3, 4),
        ("log.retention.hours=-1", -1, 604_800_000),
    ],
)
def test_the_finer_unit_counts(text: str, retention_ms: int, roll_ms: int):
    """Of several units for one thing, as in Kafka."""
    given = settings(text)
    assert (given.retention_ms, given.roll_ms) == (retention_ms, roll_ms)
    assert topic_defaults(given)["retention.ms"] == str(retention_ms)


def test_what_was_chosen_can_be_written_and_read_back():
    """The properties of a started broker are those of its settings."""
    text = (
        "listeners=PLAINTEXT://[::1]:0\nbroker.rack=az1\nlog.dirs=/data\nlog.retention.ms=5\n"
        "tidelog.generation=hw\ntidelog.evidence.dir=/evidence\nunclean.leader.election.enable=TRUE\n"
        "tidelog.peer.routes=2=[::1]:5012, 3=b:5013\n"
    )
    first = settings(text)
    again = settle(parse(dump(first.chosen()), "x")).settings
    assert again == first
    assert set(first.chosen()) >= {"broker.id", "listeners", "broker.rack", "tidelog.generation"}


def test_routes_to_other_brokers():
    """Each is a broker's id and an address to connect to; what is none is refused by name."""
    assert settings("tidelog.peer.routes=2=a:5012, 3=[::1]:5013").tidelog_peer_routes == (
        (2, Endpoint("a", 5012)),
        (3, Endpoint("::1", 5013)),
    )
    assert settings("tidelog.peer.routes=").tidelog_peer_routes == ()
    assert "expected id=host:port,…, not 'a:5012'" in refusal("tidelog.peer.routes=a:5012")
    assert "expected host:port, not 'a'" in refusal("tidelog.peer.routes=2=a")
    assert "a host and a port to connect to, not 'a:0'" in refusal("tidelog.peer.routes=2=a:0")
    assert "two routes to broker 2" in refusal("tidelog.peer.routes=2=a:1,2=b:1")


def test_every_setting_says_what_it_is():
    """Each has a text and a group, and its default is a value that its own kind accepts."""
    for setting in BROKER.values():
        assert setting.doc
        assert setting.group
        assert setting.kind.describes
        if setting.default not in (REQUIRED, None, ""):
            assert setting.kind.parse(setting.default_text) == setting.default


def test_the_page_of_settings_is_current():
    """Written by docs/reference/make_settings.py; run it after a change of the table."""
    made = runpy.run_path(str(ROOT / "docs/reference/make_settings.py"))["page"]()
    assert (ROOT / "docs/reference/settings.md").read_text("utf-8") == made


def test_topics_have_what_a_broker_says_about_its_logs():
    """Every setting of a topic follows a change of the broker's, and has its default without one."""
    assert LogConfig.from_properties({}, topic_defaults(settings())) == LogConfig()
    changed = topic_defaults(
        settings(
            "log.cleanup.policy=compact\ncompression.type=gzip\nlog.cleaner.delete.retention.ms=7\n"
            "log.segment.delete.delay.ms=7\nlog.flush.interval.messages=7\nlog.flush.scheduler.interval.ms=7\n"
            "log.index.interval.bytes=7\nlog.cleaner.max.compaction.lag.ms=7\nmessage.max.bytes=7\n"
            "log.message.timestamp.difference.max.ms=7\nlog.message.timestamp.type=LogAppendTime\n"
            "log.cleaner.min.cleanable.ratio=0.7\nlog.cleaner.min.compaction.lag.ms=7\n"
            "min.insync.replicas=7\nlog.preallocate=true\nlog.retention.bytes=7\nlog.retention.hours=7\n"
            "log.segment.bytes=77\nlog.index.size.max.bytes=77\nlog.roll.hours=7\ntidelog.flush=always\n"
            "unclean.leader.election.enable=true\n"
        )
    )
    defaults = LogConfig().texts()
    unchanged = [name for name, text in changed.items() if defaults[name] == text]
    assert unchanged == []
    assert defaults.keys() - changed.keys() == {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    }
