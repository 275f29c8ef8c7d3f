"""The settings of a topic, under Kafka's names. Each has the kind and the default of a broker's setting.

A topic's own values lie over the broker's defaults, and those over the table's. DescribeConfigs lists the
table, so it holds every setting a topic may have, also the few that only replication obeys. What is wrong
with a value is said in one line, without the value being taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidelog.settings.broker import BROKER, Flush, Settings
from tidelog.settings.table import SettingsError, Values, row

TEXT_LENGTH_MAX = 1_000
"""Of a name or a value as it is given: more cannot be meant, and every broker would keep it."""

_WEEK_MS = 7 * 86_400_000


def _like(broker_default: str, doc: str, *, default: Any = None, name: str = "") -> Any:
    """A setting of the broker's kind, with its default unless that follows from several settings."""
    setting = BROKER[broker_default]
    if default is None:
        default = setting.default
    return row(setting.kind, default, doc, name=name, broker_default=broker_default)


class LogConfig(Values, noun="topic setting"):
    cleanup_policy: tuple[str, ...] = _like(
        "log.cleanup.policy",
        "delete: old segments go, as retention says. compact: records go whose key was written again.",
    )
    compression_type: str = _like(
        "compression.type", "Batches are stored as the producer compressed them, whatever this says."
    )
    delete_retention_ms: int = _like(
        "log.cleaner.delete.retention.ms",
        "A record without a value is kept so long after compaction met it.",
    )
    file_delete_delay_ms: int = _like(
        "log.segment.delete.delay.ms", "Files are removed at once; readers hold on to open ones."
    )
    flush_messages: int = _like(
        "log.flush.interval.messages", "With tidelog.flush=interval: sync after so many records,"
    )
    flush_ms: int = _like(
        "log.flush.interval.ms",
        "or when the oldest that is not synced has waited so long.",
        default=BROKER["log.flush.scheduler.interval.ms"].default,
    )
    index_interval_bytes: int = _like("log.index.interval.bytes", "One index entry for so many bytes of log.")
    max_compaction_lag_ms: int = _like(
        "log.cleaner.max.compaction.lag.ms",
        "Compact, and roll, when a record has waited so long, however small the dirty share.",
    )
    max_message_bytes: int = _like("message.max.bytes", "The largest batch that is taken.")
    message_timestamp_difference_max_ms: int = _like(
        "log.message.timestamp.difference.max.ms",
        "How far a record's timestamp may be from the broker's clock.",
    )
    message_timestamp_type: str = _like(
        "log.message.timestamp.type",
        "Whose clock gives records their timestamps: the producer's or the broker's.",
    )
    min_cleanable_dirty_ratio: float = _like(
        "log.cleaner.min.cleanable.ratio", "Compact when so large a share of a log has not been compacted."
    )
    min_compaction_lag_ms: int = _like(
        "log.cleaner.min.compaction.lag.ms", "Records younger than this are not compacted."
    )
    min_insync_replicas: int = _like("min.insync.replicas", "How many in-sync replicas acks=all asks for.")
    preallocate: bool = _like("log.preallocate", "Space is reserved as it is used, whatever this says.")
    retention_bytes: int = _like("log.retention.bytes", "The oldest segments go beyond this size; -1: never.")
    retention_ms: int = _like(
        "log.retention.ms",
        "Segments go when their records are older than this; -1: never.",
        default=_WEEK_MS,
    )
    segment_bytes: int = _like("log.segment.bytes", "A segment is rolled at this size,")
    segment_index_bytes: int = _like("log.index.size.max.bytes", "when an index of it has this size,")
    segment_ms: int = _like("log.roll.ms", "or when its records span this time.", default=_WEEK_MS)
    flush: Flush = _like(
        "tidelog.flush",
        "When appends are synced: always (before they are acknowledged), interval, or roll (with a segment).",
        name="tidelog.flush",
    )
    unclean_leader_election_enable: bool = _like(
        "unclean.leader.election.enable",
        "Whether a replica that may lack records can lead when no other is left.",
    )

    @classmethod
    def from_properties(
        cls, values: Mapping[str, str], defaults: Mapping[str, str] | None = None
    ) -> LogConfig:
        """``values`` over ``defaults`` over the table's; ``SettingsError`` names the first bad one."""
        parsed = {}
        for name, text in {**(defaults or {}), **values}.items():
            if name not in TOPIC:
                raise SettingsError(TOPIC.unknown(name[:TEXT_LENGTH_MAX]))
            if len(text) > TEXT_LENGTH_MAX:
                long = f"a value of {len(text)} characters: expected at most {TEXT_LENGTH_MAX}"
                raise SettingsError(f"{name}: {long}")
            parsed[TOPIC[name].attribute] = TOPIC.parse(name, text)
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


TOPIC: Final = LogConfig.table


def topic_defaults(settings: Settings) -> dict[str, str]:
    """What a topic of this broker has that does not say otherwise."""
    values = settings.texts() | {
        "log.retention.ms": str(settings.retention_ms),
        "log.roll.ms": str(settings.roll_ms),
        "log.flush.interval.ms": str(settings.flush_ms),
    }
    return {name: values[setting.broker_default] for name, setting in TOPIC.items()}
