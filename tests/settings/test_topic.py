"""The settings of a topic: one table, Kafka's names, and one line about what is wrong."""

from __future__ import annotations

import pytest

from tidelog.settings.topic import LOG_SETTINGS, Flush, InvalidLogConfig, LogConfig


def test_the_table_and_the_values_agree() -> None:
    """A configuration without any property has the defaults of the table, and shows them as they stand."""
    defaults = {setting.name: setting.default for setting in LOG_SETTINGS}
    assert LogConfig() == LogConfig.from_properties({}) == LogConfig.from_properties(defaults)
    assert LogConfig().properties() == defaults
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
        ("segment.bytes", "lots", "segment.bytes=lots: expected a whole number"),
        ("segment.bytes", "1_000", "segment.bytes=1_000: expected a whole number"),
        ("segment.bytes", "13", "segment.bytes=13: expected at least 14"),
        ("segment.bytes", str(2**31), f"segment.bytes={2**31}: expected at most {2**31 - 1}"),
        ("retention.ms", "-2", "retention.ms=-2: expected at least -1"),
        ("tidelog.flush", "never", "tidelog.flush=never: expected one of always, interval, roll"),
        ("cleanup.policy", "keep", "cleanup.policy=keep: expected delete, compact, or both"),
        ("min.cleanable.dirty.ratio", "2", "min.cleanable.dirty.ratio=2: expected a number from 0 to 1"),
        ("preallocate", "perhaps", "preallocate=perhaps: expected true or false"),
        ("compression.type", "rar", "compression.type=rar: expected one of producer, uncompressed"),
        ("segment.size", "1", "segment.size is not a setting of a topic"),
        ("x" * 40_000, "1", "x" * 1_000 + " is not a setting of a topic"),
        (
            "segment.bytes",
            " " * 1_000 + "9",
            "segment.bytes: a value of 1001 characters: expected at most 1000",
        ),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: str, complaint: str) -> None:
    """Name, value, and what was expected."""
    with pytest.raises(InvalidLogConfig) as refused:
        LogConfig.from_properties({name: value})
    assert str(refused.value).startswith(complaint)
    assert "\n" not in str(refused.value)


def test_every_setting_says_what_it_does() -> None:
    """DescribeConfigs shows the text, and a type that it knows."""
    for setting in LOG_SETTINGS:
        assert setting.doc.endswith((".", ",")), setting.name
        assert setting.type in {"int", "long", "double", "string", "boolean", "list"}
