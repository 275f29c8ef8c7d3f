"""The settings of a topic: one table, Kafka's names, and one line about what is wrong."""

from __future__ import annotations

import pytest

from tidelog.settings.broker import BROKER, Flush
from tidelog.settings.kinds import EVERY_REPLICA
from tidelog.settings.table import SettingsError
from tidelog.settings.topic import TOPIC, LogConfig


def test_the_table_and_the_values_agree() -> None:
    """A configuration without any property has the defaults of the table, and shows them unchanged."""
    defaults = {setting.name: setting.default_text for setting in TOPIC.values()}
    assert LogConfig() == LogConfig.from_properties({}) == LogConfig.from_properties(defaults)
    assert LogConfig().texts() == defaults
    assert list(defaults) == sorted(defaults)


def test_a_topic_overrides_the_broker() -> None:
    """The topic's value, else the broker's, else the table's."""
    config = LogConfig.from_properties(
        {"retention.ms": "-1", "tidelog.flush": "always"}, {"retention.ms": "5", "segment.bytes": "1000"}
    )
    assert (config.retention_ms, config.segment_bytes, config.flush) == (-1, 1000, Flush.ALWAYS)
    assert config.max_message_bytes == 1_048_588


def test_what_the_policies_mean() -> None:
    """Only delete deletes; append time is the broker's."""
    compacted = LogConfig.from_properties({"cleanup.policy": "compact"})
    both = LogConfig.from_properties({"cleanup.policy": "compact, delete"})
    assert (LogConfig().deletes, compacted.deletes, both.deletes) == (True, False, True)
    assert (LogConfig().compacts, compacted.compacts, both.compacts) == (False, True, True)
    assert LogConfig.from_properties({"message.timestamp.type": "LogAppendTime"}).append_time
    assert not LogConfig().append_time


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("segment.bytes", "lots", "segment.bytes=lots: expected an integer"),
        ("segment.bytes", "1_000", "segment.bytes=1_000: expected an integer"),
        ("segment.bytes", "13", "segment.bytes=13: expected an integer of at least 14"),
        ("segment.bytes", str(2**31), f"segment.bytes={2**31}: expected an integer of at most {2**31 - 1}"),
        ("retention.ms", "-2", "retention.ms=-2: expected an integer of at least -1"),
        ("tidelog.flush", "never", "tidelog.flush=never: expected one of always, interval, roll"),
        ("cleanup.policy", "keep", "cleanup.policy=keep: expected one of delete, compact, not 'keep'"),
        ("min.cleanable.dirty.ratio", "2", "min.cleanable.dirty.ratio=2: expected a number from 0 to 1"),
        ("preallocate", "perhaps", "preallocate=perhaps: expected true or false"),
        ("compression.type", "rar", "compression.type=rar: expected one of producer, uncompressed"),
        (
            "leader.replication.throttled.replicas",
            "0:1,2",
            "leader.replication.throttled.replicas=0:1,2: expected partition:broker,… or *, not '2'",
        ),
        (
            "follower.replication.throttled.replicas",
            "0:1,*",
            "follower.replication.throttled.replicas=0:1,*: expected partition:broker,… or *, not '*'",
        ),
        (
            "follower.replication.throttled.replicas",
            "-1:0",
            "follower.replication.throttled.replicas=-1:0: expected partition:broker",
        ),
        ("segment.byte", "1", "unknown topic setting segment.byte: did you mean segment.bytes?"),
        ("x" * 40_000, "1", "unknown topic setting " + "x" * 1_000),
        (
            "segment.bytes",
            " " * 1_000 + "9",
            "segment.bytes: a value of 1001 characters: expected at most 1000",
        ),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: str, complaint: str) -> None:
    """Name, value, and what was expected."""
    with pytest.raises(SettingsError) as refused:
        LogConfig.from_properties({name: value})
    assert str(refused.value).startswith(complaint)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("", (), ""),
        ("*", EVERY_REPLICA, "*"),
        ("0:1", ((0, 1),), "0:1"),
        (" 0:1 ,, 12:3,0:1,", ((0, 1), (12, 3)), "0:1,12:3"),
    ],
)
def test_throttled_replicas(text: str, value: object, shown: str) -> None:
    """By partition and broker, or every one; of a topic with thousands of partitions, too."""
    name = "leader.replication.throttled.replicas"
    config = LogConfig.from_properties({name: text})
    assert config.leader_replication_throttled_replicas == value
    assert config.texts()[name] == shown
    many = ",".join(f"{number}:1" for number in range(4_000))
    assert len(LogConfig.from_properties({name: many}).leader_replication_throttled_replicas) == 4_000


def test_every_setting_says_what_it_does() -> None:
    """DescribeConfigs shows the text. The broker's setting that is the default is of the same kind."""
    for setting in TOPIC.values():
        assert setting.doc.endswith((".", ",")), setting.name
        if setting.broker_default:
            assert BROKER[setting.broker_default].kind is setting.kind


def test_values_stay_what_they_are() -> None:
    """Nothing sets one by mistake; a name that is no setting is refused when the values are made."""
    with pytest.raises(AttributeError, match="set once"):
        LogConfig().segment_bytes = 1
    with pytest.raises(TypeError, match="segment_size"):
        LogConfig(segment_size=1)
