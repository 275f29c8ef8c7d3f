"""What a broker can be told: every setting with its kind, its default and what it does.

`Settings` is the one table. A field is called what Kafka calls it, with dots for underscores, and has Kafka
2.7's default unless its text says otherwise. Reading files, complaints, `tidelog broker --settings`, the page
`docs/reference/settings.md` and what DescribeConfigs tells clients are all drawn from it. Names that begin
with `tidelog.` are ours.

A topic's own settings (`retention.ms` and its kin) are not repeated here: `log_defaults` hands what a broker
says about all its logs to the storage's table of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tidelog.core.config import BrokerConfig, IsrRule
from tidelog.core.controller.topic_creation import PARTITIONS_PER_REQUEST_MAX
from tidelog.settings.kinds import (
    LONG_MAX,
    Choice,
    Endpoint,
    Ensemble,
    Folder,
    Integer,
    KeeperUrl,
    Kind,
    Listener,
    MetricsPort,
    Number,
    Routes,
    Truth,
    Word,
    int32,
    int64,
)

_INT_MAX: Final = (1 << 31) - 1
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_KEY: Final = "setting"

GENERATIONS: Final = ("hw", "kip101", "epoch", "majority")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
FLUSHES: Final = ("always", "interval", "roll")
OFFSETS_PARTITIONS_MAX: Final = 100

# Other names for a setting: the first is KRaft's, the second Kafka's oldest.
ALIASES: Final = {"node.id": "broker.id", "log.dir": "log.dirs"}


class SettingsError(Exception):
    """A broker cannot run with these settings. The message is one line that says what to change."""

    def __init__(self, message: str, *, lacks: str | None = None) -> None:
        super().__init__(message)
        self.lacks = lacks
        """The setting that is missing, if that is what is wrong."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `default` is `REQUIRED` where there is none."""

    name: str
    attribute: str
    kind: Kind
    default: Any
    doc: str
    group: str

    @property
    def default_text(self) -> str:
        if self.default is REQUIRED:
            return "(required)"
        return "" if self.default is None else self.kind.show(self.default)


REQUIRED: Final = dataclasses.MISSING


def _setting(kind: Kind, default: Any, doc: str, *, group: str = "") -> Any:
    """A field of the table. `group` is the heading of this field and of those after it."""
    return dataclasses.field(default=default, metadata={_KEY: (kind, doc, group)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    broker_id: int = _setting(int32(0), REQUIRED, "The broker's number in the cluster.", group="Identity")
    broker_rack: str | None = _setting(Word(), None, "Where it stands; replicas are spread over racks.")

    # ------------------------------------------------------------ connections
    listeners: Endpoint = _setting(  # noqa: RUF009
        Listener(),
        Endpoint("", 9092),
        "Where it listens; no host is every interface, port 0 any free one.",
        group="Connections",
    )
    advertised_listeners: Endpoint | None = _setting(  # noqa: RUF009
        Listener(), None, "What clients and other brokers are told to connect to; the listener if empty."
    )
    tidelog_peer_routes: tuple[tuple[int, Endpoint], ...] = _setting(
        Routes(),
        (),
        "Reach other brokers through these addresses instead of those they advertise: for tunnels, proxies "
        "and trials.",
    )
    socket_request_max_bytes: int = _setting(int32(1), 104_857_600, "The largest request it reads.")
    max_connections: int = _setting(int32(0), _INT_MAX, "Connections it accepts at once.")
    max_connections_per_ip: int = _setting(int32(0), _INT_MAX, "Connections it accepts from one address.")
    connections_max_idle_ms: int = _setting(int64(), 600_000, "Idle connections are closed after this.")
    queued_max_requests: int = _setting(
        int32(1), 500, "Requests it holds unanswered for one connection before it stops reading from it."
    )
    queued_max_request_bytes: int = _setting(
        int64(-1),
        268_435_456,
        "Memory for the requests that are arriving, of all connections together. Beyond it large ones wait, "
        "and one at a time goes on. -1, Kafka's default: no bound.",
    )
    fetch_max_bytes: int = _setting(int32(1024), 57_671_680, "The most it returns to one Fetch request.")
    message_max_bytes: int = _setting(int32(0), 1_048_588, "The largest record batch it takes.")

    # ------------------------------------------------------------ keeper
    zookeeper_connect: str = _setting(
        Ensemble(), "", "The ZooKeeper ensemble that holds the cluster together.", group="Keeper"
    )
    tidelog_keeper: str = _setting(
        KeeperUrl(), "", "The keeper instead: `embedded://host:port`, or `zookeeper://` as above."
    )
    zookeeper_session_timeout_ms: int = _setting(
        int32(1), 18_000, "A broker silent for so long counts as dead (`tidelog up`: 4000)."
    )
    zookeeper_connection_timeout_ms: int | None = _setting(
        int32(1), None, "How long to wait for the keeper at the start; the session timeout if empty."
    )

    # ------------------------------------------------------------ topics
    num_partitions: int = _setting(
        Integer(1, PARTITIONS_PER_REQUEST_MAX),
        1,
        "Partitions of a topic for which none are named, at most 10,000.",
        group="Topics",
    )
    default_replication_factor: int = _setting(
        int32(1), 1, "Replicas of such a topic (`tidelog up`: 3, or as many as there are brokers)."
    )
    auto_create_topics_enable: bool = _setting(Truth(), True, "Create a topic when a client asks for it.")
    delete_topic_enable: bool = _setting(Truth(), True, "Allow topics to be deleted.")
    min_insync_replicas: int = _setting(
        int32(1), 1, "With acks=all a write needs so many in-sync replicas; topics may differ."
    )
    unclean_leader_election_enable: bool = _setting(
        Truth(), False, "Let a replica lead that is not in sync if no other is left: loses records."
    )
    compression_type: str = _setting(
        Choice(("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")),
        "producer",
        "Batches stay as the producer compressed them; nothing else is supported.",
    )

    # ------------------------------------------------------------ replication
    tidelog_generation: str = _setting(
        Choice(GENERATIONS),
        "epoch",
        "The replication rules: of Kafka 0.10, 0.11, 2.7, or a majority as in Raft.",
        group="Replication",
    )
    replica_lag_time_max_ms: int = _setting(
        int64(1), 30_000, "A follower that did not catch up for so long leaves the ISR."
    )
    tidelog_isr_rule: str = _setting(
        Choice(tuple(rule.value for rule in IsrRule)),
        IsrRule.CAUGHT_UP_TIME.value,
        "What makes a follower leave the ISR: not caught up for `replica.lag.time.max.ms`; as before Kafka "
        "0.9 no fetch for so long, or being behind by more than `replica.lag.max.messages`.",
    )
    replica_lag_max_messages: int = _setting(
        int64(1), 4_000, "With `tidelog.isr.rule=message-lag`: a follower so far behind leaves the ISR."
    )
    replica_fetch_wait_max_ms: int = _setting(
        int32(0), 500, "How long a leader may hold a follower's fetch when there is nothing new."
    )
    replica_fetch_backoff_ms: int = _setting(int32(0), 1_000, "A follower's pause after a failed fetch.")
    replica_fetch_max_bytes: int = _setting(int32(0), 1_048_576, "What a follower fetches of one partition.")
    replica_fetch_response_max_bytes: int = _setting(int32(0), 10_485_760, "And of all partitions at once.")
    replica_high_watermark_checkpoint_interval_ms: int = _setting(
        int64(1), 5_000, "How often high watermarks are written down."
    )
    auto_leader_rebalance_enable: bool = _setting(
        Truth(), True, "Give leadership back to the first replica of a partition when it has returned."
    )
    leader_imbalance_check_interval_seconds: int = _setting(int64(1), 300, "How often to look for that.")
    leader_imbalance_per_broker_percentage: int = _setting(
        Integer(0, 100), 10, "How many of its leaderships a broker may lack before that happens."
    )
    controlled_shutdown_enable: bool = _setting(
        Truth(), True, "Hand leadership over before the process ends."
    )
    controlled_shutdown_max_retries: int = _setting(int32(0), 3, "How often to try that.")
    controlled_shutdown_retry_backoff_ms: int = _setting(int64(0), 5_000, "The pause between two tries.")
    controller_socket_timeout_ms: int = _setting(
        int32(1), 30_000, "How long a try waits for the controller's answer."
    )

    # ------------------------------------------------------------ logs
    log_dirs: Path = _setting(  # noqa: RUF009
        Folder(),
        Path("/tmp/tidelog-logs"),
        "The directory of its logs, one. Not Kafka's default, so that the two never share one.",
        group="Logs",
    )
    tidelog_flush: str = _setting(
        Choice(FLUSHES),
        "roll",
        "When logs are synced to disk: before every acknowledgement, as `log.flush.interval.*` say, or when "
        "a segment is rolled (Kafka's way).",
    )
    log_segment_bytes: int = _setting(int32(14), 1_073_741_824, "A segment is rolled at this size,")
    log_roll_ms: int | None = _setting(int64(1), None, "or at this age;")
    log_roll_hours: int = _setting(int32(1), 168, "the age in hours where `log.roll.ms` is empty.")
    log_retention_ms: int | None = _setting(
        int64(-1), None, "Segments older than this are deleted; -1: none;"
    )
    log_retention_minutes: int | None = _setting(int32(-1), None, "in minutes where that is empty,")
    log_retention_hours: int = _setting(int32(-1), 168, "in hours where both are.")
    log_retention_bytes: int = _setting(
        int64(-1), -1, "A partition's oldest segments go beyond this; -1: never."
    )
    log_retention_check_interval_ms: int = _setting(int64(1), 300_000, "How often to look for such segments.")
    log_segment_delete_delay_ms: int = _setting(
        int64(0), 60_000, "Without effect: files are removed at once, readers hold on to open ones."
    )
    log_cleanup_policy: str = _setting(
        Choice(("delete", "compact", "compact,delete", "delete,compact")),
        "delete",
        "What becomes of old records: they go with their segment, or when their key is written again.",
    )
    log_cleaner_enable: bool = _setting(Truth(), True, "Compact the logs of which `cleanup.policy` says so.")
    log_cleaner_backoff_ms: int = _setting(int64(0), 15_000, "How often to look for a log to compact.")
    log_cleaner_dedupe_buffer_size: int = _setting(
        int64(1), 134_217_728, "Memory for keys, about 200 bytes each; more keys take several passes."
    )
    log_cleaner_io_max_bytes_per_second: float | None = _setting(
        Number(1), None, "Read no faster than this when compacting; empty: as fast as it goes."
    )
    log_cleaner_min_cleanable_ratio: float = _setting(
        Number(0, 1), 0.5, "Compact a log when so large a share of it has not been compacted,"
    )
    log_cleaner_max_compaction_lag_ms: int = _setting(
        int64(1), LONG_MAX, "or when a record has waited so long,"
    )
    log_cleaner_min_compaction_lag_ms: int = _setting(int64(0), 0, "but no record that is younger than this.")
    log_cleaner_delete_retention_ms: int = _setting(
        int64(0), 24 * _HOUR_MS, "A record without a value is kept so long after compaction met it."
    )
    log_flush_interval_messages: int = _setting(
        int64(1), LONG_MAX, "With `tidelog.flush=interval`: sync after so many records,"
    )
    log_flush_interval_ms: int | None = _setting(int64(0), None, "or after so long;")
    log_flush_scheduler_interval_ms: int = _setting(
        int64(0), LONG_MAX, "and that is `log.flush.interval.ms` where it is empty."
    )
    log_flush_offset_checkpoint_interval_ms: int = _setting(
        int32(0), 60_000, "How often recovery points are written down."
    )
    log_flush_start_offset_checkpoint_interval_ms: int = _setting(
        int32(0), 60_000, "How often log start offsets are written down."
    )
    log_index_interval_bytes: int = _setting(int32(0), 4_096, "One index entry for so many bytes of log.")
    log_index_size_max_bytes: int = _setting(int32(32), 10_485_760, "The largest index file.")
    log_preallocate: bool = _setting(Truth(), False, "Without effect: space is reserved as it is used.")
    log_message_timestamp_type: str = _setting(
        Choice(("CreateTime", "LogAppendTime")), "CreateTime", "Whose clock stamps records."
    )
    log_message_timestamp_difference_max_ms: int = _setting(
        int64(0), LONG_MAX, "How far a producer's clock may be off before its records are refused."
    )
    producer_id_expiration_ms: int = _setting(
        int32(1), 24 * _HOUR_MS, "An idempotent producer that is silent for so long is forgotten."
    )
    tidelog_clock_offset_ms: int = _setting(
        int64(), 0, "How far its clock is ahead of its machine's, or behind: to see what a wrong one does."
    )

    # ------------------------------------------------------------ groups
    group_min_session_timeout_ms: int = _setting(
        int32(0), 6_000, "The shortest session timeout a member may ask for.", group="Consumer groups"
    )
    group_max_session_timeout_ms: int = _setting(int32(0), 1_800_000, "The longest.")
    group_initial_rebalance_delay_ms: int = _setting(
        int32(0), 3_000, "How long a new group waits for more members (`tidelog up`: 0)."
    )
    group_max_size: int = _setting(int32(1), _INT_MAX, "Members of a group.")
    offset_metadata_max_bytes: int = _setting(int32(0), 4_096, "Text that may go with a committed offset.")
    offsets_topic_num_partitions: int = _setting(
        Integer(1, OFFSETS_PARTITIONS_MAX), 50, "Partitions of the offsets topic (`tidelog up`: 10)."
    )
    offsets_topic_replication_factor: int = _setting(
        int32(1), 3, "Its replicas (`tidelog up`: at most as many as there are brokers)."
    )
    offsets_topic_segment_bytes: int = _setting(int32(1), 104_857_600, "The size of its segments.")
    offsets_retention_minutes: int = _setting(int32(1), 10_080, "Offsets of an empty group are kept so long.")
    offsets_retention_check_interval_ms: int = _setting(int64(1), 600_000, "How often to look for such.")
    offsets_commit_timeout_ms: int = _setting(int32(1), 5_000, "How long a commit may take to be replicated.")

    # ------------------------------------------------------------ watching
    tidelog_metrics_port: int = _setting(
        MetricsPort(),
        -1,
        "Serve Prometheus metrics here; 0 any free port, -1 or empty not at all (`tidelog up`: 0).",
        group="Watching",
    )
    tidelog_log_level: str = _setting(Choice(LOG_LEVELS), "info", "What is worth a line in its log.")
    tidelog_evidence_dir: Path | None = _setting(  # noqa: RUF009
        Folder(), None, "Write what happened there, for an audit; empty: nowhere."
    )

    def __post_init__(self) -> None:
        if not self.zookeeper_connect and not self.tidelog_keeper:
            raise SettingsError(
                "no keeper: set zookeeper.connect=host:port or tidelog.keeper=URL", lacks="tidelog.keeper"
            )
        if self.zookeeper_connect and self.tidelog_keeper:
            raise SettingsError("two keepers: set only one of zookeeper.connect and tidelog.keeper")
        told = self.advertised_listeners
        if told is not None and told.host in ("", "0.0.0.0", "::"):
            raise SettingsError("advertised.listeners: name a host that clients can connect to")
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise SettingsError(
                "replica.fetch.wait.max.ms exceeds replica.lag.time.max.ms: idle ones would leave the ISR"
            )

    # ------------------------------------------------------------ what follows from them

    @property
    def keeper_url(self) -> str:
        return self.tidelog_keeper or f"zookeeper://{self.zookeeper_connect}"

    @property
    def connection_timeout_ms(self) -> int:
        chosen = self.zookeeper_connection_timeout_ms
        return self.zookeeper_session_timeout_ms if chosen is None else chosen

    def advertised(self, bound_port: int) -> Endpoint:
        """Where to send clients, once the listener is bound to a port."""
        if self.advertised_listeners is not None:
            host, port = self.advertised_listeners
            return Endpoint(host, port or bound_port)
        host = self.listeners.host
        if host in ("", "0.0.0.0", "::"):
            import socket

            host = socket.getfqdn()
        return Endpoint(host, bound_port)

    @property
    def retention_ms(self) -> int:
        if self.log_retention_ms is not None:
            return self.log_retention_ms
        if self.log_retention_minutes is not None:
            return _scaled(self.log_retention_minutes, _MINUTE_MS)
        return _scaled(self.log_retention_hours, _HOUR_MS)

    @property
    def roll_ms(self) -> int:
        return self.log_roll_hours * _HOUR_MS if self.log_roll_ms is None else self.log_roll_ms

    @property
    def flush_ms(self) -> int:
        chosen = self.log_flush_interval_ms
        return self.log_flush_scheduler_interval_ms if chosen is None else chosen

    def core_config(self) -> BrokerConfig:
        """What the replication rules obey."""
        return BrokerConfig(
            replica_lag_time_max_ms=self.replica_lag_time_max_ms,
            replica_lag_max_messages=self.replica_lag_max_messages,
            isr_rule=IsrRule(self.tidelog_isr_rule),
            replica_fetch_wait_max_ms=self.replica_fetch_wait_max_ms,
            replica_fetch_backoff_ms=self.replica_fetch_backoff_ms,
            high_watermark_checkpoint_interval_ms=self.replica_high_watermark_checkpoint_interval_ms,
            controlled_shutdown_max_retries=self.controlled_shutdown_max_retries,
            controlled_shutdown_retry_backoff_ms=self.controlled_shutdown_retry_backoff_ms,
            controller_socket_timeout_ms=self.controller_socket_timeout_ms,
            num_partitions=self.num_partitions,
            default_replication_factor=self.default_replication_factor,
            min_insync_replicas=self.min_insync_replicas,
            unclean_leader_election_enable=self.unclean_leader_election_enable,
        )

    def log_defaults(self) -> dict[str, str]:
        """The settings of a topic that does not say otherwise, by a topic's names for them."""
        values = {
            "cleanup.policy": self.log_cleanup_policy,
            "compression.type": self.compression_type,
            "delete.retention.ms": self.log_cleaner_delete_retention_ms,
            "file.delete.delay.ms": self.log_segment_delete_delay_ms,
            "flush.messages": self.log_flush_interval_messages,
            "flush.ms": self.flush_ms,
            "index.interval.bytes": self.log_index_interval_bytes,
            "max.compaction.lag.ms": self.log_cleaner_max_compaction_lag_ms,
            "max.message.bytes": self.message_max_bytes,
            "message.timestamp.difference.max.ms": self.log_message_timestamp_difference_max_ms,
            "message.timestamp.type": self.log_message_timestamp_type,
            "min.cleanable.dirty.ratio": self.log_cleaner_min_cleanable_ratio,
            "min.compaction.lag.ms": self.log_cleaner_min_compaction_lag_ms,
            "min.insync.replicas": self.min_insync_replicas,
            "preallocate": self.log_preallocate,
            "retention.bytes": self.log_retention_bytes,
            "retention.ms": self.retention_ms,
            "segment.bytes": self.log_segment_bytes,
            "segment.index.bytes": self.log_index_size_max_bytes,
            "segment.ms": self.roll_ms,
            "tidelog.flush": self.tidelog_flush,
            "unclean.leader.election.enable": self.unclean_leader_election_enable,
        }
        return {
            name: Truth().show(value) if isinstance(value, bool) else str(value)
            for name, value in values.items()
        }

    def value_text(self, setting: Setting) -> str:
        """A value as it would stand in a file."""
        value = getattr(self, setting.attribute)
        return "" if value is None else setting.kind.show(value)

    def chosen(self) -> dict[str, str]:
        """The settings that differ from their defaults, as they would stand in a file."""
        return {
            setting.name: self.value_text(setting)
            for setting in table().values()
            if getattr(self, setting.attribute) != setting.default
        }


def _scaled(value: int, unit_ms: int) -> int:
    return value * unit_ms if value >= 0 else -1


@cache
def table() -> dict[str, Setting]:
    """All settings by name, in the order in which they are shown."""
    return {setting.name: setting for setting in _rows()}


def _rows() -> Iterator[Setting]:
    group = ""
    for field in dataclasses.fields(Settings):
        kind, doc, heading = field.metadata[_KEY]
        group = heading or group
        yield Setting(field.name.replace("_", "."), field.name, kind, field.default, doc, group)
