"""The settings of a topic, under Kafka's names. Each has the kind and the default of a broker's setting.

A topic's own values override the broker's defaults, and those override the table's. DescribeConfigs lists the
table, so it holds every setting of a topic, also the few that only replication uses. A wrong value is refused
with a message of one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidelog.settings.broker import BROKER, Flush, Settings
from tidelog.settings.kinds import TEXT_LENGTH_MAX, ReplicaList, Replicas
from tidelog.settings.table import SettingsError, Values, row

_WEEK_MS = 7 * 86_400_000


def _like(broker_default: str, doc: str, *, default: Any = None, name: str = "") -> Any:
    """A row with the kind and the default of a broker's setting. `default` is for those that depend on
    several settings."""
    setting = BROKER[broker_default]
    if default is None:
        default = setting.default
    return row(setting.kind, default, doc, name=name, broker_default=broker_default)


class LogConfig(Values, noun="topic setting"):
    cleanup_policy: tuple[str, ...] = _like(
        "log.cleanup.policy",
        "delete: remove old segments, see retention. compact: remove records whose key was written again.",
    )
    compression_type: str = _like(
        "compression.type", "Without effect: batches are stored as the producer compressed them."
    )
    delete_retention_ms: int = _like(
        "log.cleaner.delete.retention.ms",
        "How long a record without a value (tombstone) is kept after its first compaction.",
    )
    file_delete_delay_ms: int = _like(
        "log.segment.delete.delay.ms", "Without effect: files are removed at once; readers keep theirs open."
    )
    flush_messages: int = _like(
        "log.flush.interval.messages", "With tidelog.flush=interval: sync after this many records."
    )
    flush_ms: int = _like(
        "log.flush.interval.ms",
        "With tidelog.flush=interval: sync when the oldest unsynced record has waited for this time.",
        default=BROKER["log.flush.scheduler.interval.ms"].default,
    )
    follower_replication_throttled_replicas: Replicas = row(
        ReplicaList(),
        (),
        "Replicas, as `0:1,0:2` by partition and broker, that fetch no more than the broker's "
        "`follower.replication.throttled.rate` until they are in sync; `*`: all.",
    )
    index_interval_bytes: int = _like("log.index.interval.bytes", "Bytes of log per index entry.")
    leader_replication_throttled_replicas: Replicas = row(
        ReplicaList(),
        (),
        "Replicas that, as leaders, send no more than the broker's `leader.replication.throttled.rate` to "
        "replicas that are not in sync; `*`: all.",
    )
    max_compaction_lag_ms: int = _like(
        "log.cleaner.max.compaction.lag.ms",
        "Roll and compact when a record has waited for this time, however small the dirty share.",
    )
    max_message_bytes: int = _like("message.max.bytes", "Maximum size of a record batch.")
    message_timestamp_difference_max_ms: int = _like(
        "log.message.timestamp.difference.max.ms",
        "Maximum difference between a record's timestamp and the broker's clock.",
    )
    message_timestamp_type: str = _like(
        "log.message.timestamp.type",
        "Timestamps of records: of the producer or of the broker at the append.",
    )
    min_cleanable_dirty_ratio: float = _like(
        "log.cleaner.min.cleanable.ratio",
        "Compact when at least this share of the log has not been compacted.",
    )
    min_compaction_lag_ms: int = _like(
        "log.cleaner.min.compaction.lag.ms", "Records younger than this are not compacted."
    )
    min_insync_replicas: int = _like(
        "min.insync.replicas", "In-sync replicas that a write with acks=all needs."
    )
    preallocate: bool = _like("log.preallocate", "Without effect: files grow as they are written.")
    retention_bytes: int = _like(
        "log.retention.bytes", "The oldest segments are deleted beyond this size; -1: never."
    )
    retention_ms: int = _like(
        "log.retention.ms",
        "Segments older than this are deleted; -1: never.",
        default=_WEEK_MS,
    )
    segment_bytes: int = _like("log.segment.bytes", "A segment is rolled at this size.")
    segment_index_bytes: int = _like(
        "log.index.size.max.bytes", "A segment is rolled when one of its indexes has this size."
    )
    segment_ms: int = _like(
        "log.roll.ms", "A segment is rolled when its records span this time.", default=_WEEK_MS
    )
    flush: Flush = _like(
        "tidelog.flush",
        "When appends are synced: always (before they are acknowledged), interval, or roll (with a segment).",
        name="tidelog.flush",
    )
    unclean_leader_election_enable: bool = _like(
        "unclean.leader.election.enable",
        "Elect a replica that is not in sync if no other is left: loses records.",
    )

    @classmethod
    def from_properties(
        cls, values: Mapping[str, str], defaults: Mapping[str, str] | None = None
    ) -> LogConfig:
        """``values`` over ``defaults`` over the table's defaults. ``SettingsError`` names the first invalid
        value."""
        parsed = {}
        for name, text in {**(defaults or {}), **values}.items():
            if name not in TOPIC:
                raise SettingsError(TOPIC.unknown(name[:TEXT_LENGTH_MAX]))
            most = TOPIC[name].kind.length_max
            if len(text) > most:
                long = f"a value of {len(text)} characters: expected at most {most}"
                raise SettingsError(f"{name}: {long}")
            parsed[TOPIC[name].attribute] = TOPIC.parse(name, text)
        return cls(**parsed)

    @property
    def append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def deletes(self) -> bool:
        """Whether retention applies."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Whether the log is compacted, so that every record must have a key."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """Maximum age of the active segment. It is not compacted, so the maximum compaction lag limits its
        age too."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms


TOPIC: Final = LogConfig.table


def topic_defaults(settings: Settings) -> dict[str, str]:
    """The broker's defaults of topic settings."""
    values = settings.texts() | {
        "log.retention.ms": str(settings.retention_ms),
        "log.roll.ms": str(settings.roll_ms),
        "log.flush.interval.ms": str(settings.flush_ms),
    }
    return {name: values[setting.broker_default] for name, setting in TOPIC.items() if setting.broker_default}
