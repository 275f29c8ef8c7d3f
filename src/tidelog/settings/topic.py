"""The settings of a topic, under Kafka's names: one table of name, meaning, default and bounds.

A topic's own values lie over the broker's defaults, and those over the table's. DescribeConfigs lists the
table, so it holds every setting a topic may have, also the few that only replication obeys. What is wrong
with a value is said in one line, without the value being taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
SEGMENT_BYTES_MIN = 14
INDEX_BYTES_MIN = 32
TEXT_LENGTH_MAX = 1_000
"""Of a name or a value as it is given: more cannot be meant, and every broker would keep it."""


class InvalidLogConfig(ValueError):
    """A setting has a value that it cannot have, or is none of a topic's."""


class Flush(StrEnum):
    """When what was appended is synced to disk."""

    ALWAYS = "always"
    INTERVAL = "interval"
    ROLL = "roll"


@dataclass(frozen=True, slots=True)
class LogSetting:
    name: str
    type: str
    """As DescribeConfigs names types: int, long, double, string, boolean, list."""
    default: str
    doc: str
    parse: Callable[[str], Any]

    @property
    def attribute(self) -> str:
        return self.name.removeprefix("tidelog.").replace(".", "_")


def _integer(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        digits = text.strip()
        if not (digits.isascii() and digits.removeprefix("-").isdigit()):
            raise ValueError("expected a whole number")
        value = int(digits)
        if not least <= value <= most:
            bound = f"at least {least}" if value < least else f"at most {most}"
            raise ValueError(f"expected {bound}")
        return value

    return parse


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return text

    return parse


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("expected a number") from None
    if not 0 <= value <= 1:
        raise ValueError("expected a number from 0 to 1")
    return value


def _boolean(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        raise ValueError("expected true or false") from None


def _flush(text: str) -> Flush:
    return Flush(_choice(*Flush)(text))


def _policies(text: str) -> str:
    policies = [policy.strip() for policy in text.split(",")]
    if not policies or set(policies) - {"delete", "compact"}:
        raise ValueError("expected delete, compact, or both with a comma between them")
    return ",".join(policies)


def _int(name: str, least: int, default: int, doc: str) -> LogSetting:
    return LogSetting(name, "int", str(default), doc, _integer(least, INT_MAX))


def _long(name: str, least: int, default: int, doc: str) -> LogSetting:
    return LogSetting(name, "long", str(default), doc, _integer(least, LONG_MAX))


def _string(name: str, default: str, choices: tuple[str, ...], doc: str) -> LogSetting:
    return LogSetting(name, "string", default, doc, _choice(*choices))


DAY_MS = 86_400_000

LOG_SETTINGS: tuple[LogSetting, ...] = (
    LogSetting(
        "cleanup.policy",
        "list",
        "delete",
        "delete: old segments go, as retention says. compact: records go whose key was written again.",
        _policies,
    ),
    _string(
        "compression.type",
        "producer",
        ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        "Batches are stored as the producer compressed them, whatever this says.",
    ),
    _long(
        "delete.retention.ms", 0, DAY_MS, "A record without a value is kept so long after compaction met it."
    ),
    _long("file.delete.delay.ms", 0, 60_000, "Files are removed at once; readers hold on to open ones."),
    _long("flush.messages", 1, LONG_MAX, "With tidelog.flush=interval: sync after so many records,"),
    _long("flush.ms", 0, LONG_MAX, "or when the oldest that is not synced has waited so long."),
    _int("index.interval.bytes", 0, 4_096, "One index entry for so many bytes of log."),
    _long(
        "max.compaction.lag.ms",
        1,
        LONG_MAX,
        "Compact, and roll, when a record has waited so long, however small the dirty share.",
    ),
    _int("max.message.bytes", 0, 1_048_588, "The largest batch that is taken."),
    _long(
        "message.timestamp.difference.max.ms",
        0,
        LONG_MAX,
        "How far a record's timestamp may be from the broker's clock.",
    ),
    _string(
        "message.timestamp.type",
        "CreateTime",
        ("CreateTime", "LogAppendTime"),
        "Whose clock gives records their timestamps: the producer's or the broker's.",
    ),
    LogSetting(
        "min.cleanable.dirty.ratio",
        "double",
        "0.5",
        "Compact when so large a share of a log has not been compacted.",
        _share,
    ),
    _long("min.compaction.lag.ms", 0, 0, "Records younger than this are not compacted."),
    _int("min.insync.replicas", 1, 1, "How many in-sync replicas acks=all asks for."),
    LogSetting(
        "preallocate", "boolean", "false", "Space is reserved as it is used, whatever this says.", _boolean
    ),
    _long("retention.bytes", -1, -1, "The oldest segments go beyond this size; -1: never."),
    _long("retention.ms", -1, 7 * DAY_MS, "Segments go when their records are older than this; -1: never."),
    _int("segment.bytes", SEGMENT_BYTES_MIN, 1 << 30, "A segment is rolled at this size,"),
    _int("segment.index.bytes", INDEX_BYTES_MIN, 10 << 20, "when an index of it has this size,"),
    _long("segment.ms", 1, 7 * DAY_MS, "or when its records span this time."),
    LogSetting(
        "tidelog.flush",
        "string",
        Flush.ROLL,
        "When appends are synced: always (before they are acknowledged), interval, or roll (with a segment).",
        _flush,
    ),
    LogSetting(
        "unclean.leader.election.enable",
        "boolean",
        "false",
        "Whether a replica that may lack records can lead when no other is left.",
        _boolean,
    ),
)
LOG_SETTING = {setting.name: setting for setting in LOG_SETTINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The values, by the table's names."""

    cleanup_policy: str = "delete"
    compression_type: str = "producer"
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    index_interval_bytes: int = 4_096
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_difference_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    segment_ms: int = 7 * DAY_MS
    flush: Flush = Flush.ROLL
    unclean_leader_election_enable: bool = False

    @classmethod
    def from_properties(
        cls, values: Mapping[str, str], defaults: Mapping[str, str] | None = None
    ) -> LogConfig:
        """``values`` over ``defaults`` over the table's; ``InvalidLogConfig`` names the first bad one."""
        parsed = {}
        for name, text in {**(defaults or {}), **values}.items():
            setting = LOG_SETTING.get(name)
            if setting is None:
                raise InvalidLogConfig(f"{name[:TEXT_LENGTH_MAX]} is not a setting of a topic")
            if len(text) > TEXT_LENGTH_MAX:
                long = f"a value of {len(text)} characters: expected at most {TEXT_LENGTH_MAX}"
                raise InvalidLogConfig(f"{name}: {long}")
            try:
                parsed[setting.attribute] = setting.parse(text)
            except ValueError as error:
                raise InvalidLogConfig(f"{name}={text}: {error}") from None
        return cls(**parsed)

    @property
    def append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def deletes(self) -> bool:
        """Retention applies."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Records go when their key is written again, so every record must have one."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """A segment's age. The active one is not compacted, so a bound on that lag bounds its age as well."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    def properties(self) -> dict[str, str]:
        """The values as they would stand in a file."""
        return {setting.name: _shown(getattr(self, setting.attribute)) for setting in LOG_SETTINGS}


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


if {setting.attribute for setting in LOG_SETTINGS} != {field.name for field in fields(LogConfig)}:
    raise AssertionError("the table of settings and the fields of LogConfig differ")
