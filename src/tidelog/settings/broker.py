"""The settings of a broker: each with its kind, its default and its description.

A setting has Kafka 2.7's default unless its description says otherwise. Names that begin with `tidelog.` do
not exist in Kafka. To add a setting, add a row here and the code that uses it. The broker's settings of logs
are the defaults of its topics' settings, see `topic`.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tidelog.core.config import BrokerConfig, IsrRule, ReplicaSelector
from tidelog.core.controller.topic_creation import PARTITIONS_PER_REQUEST_MAX
from tidelog.core.generations import GENERATIONS
from tidelog.core.guards import Guards
from tidelog.settings.kinds import (
    INT_MAX,
    LONG_MAX,
    Endpoint,
    Folder,
    Integer,
    KeeperUrl,
    Listed,
    ListenerKind,
    MetricsPort,
    Number,
    Routes,
    Truth,
    Word,
    ZooKeeperAddress,
    int32,
    int64,
    members,
    words,
)
from tidelog.settings.table import REQUIRED, SettingsError, Values, row

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000


class Flush(StrEnum):
    """When appends are synced to disk."""

    ALWAYS = "always"
    INTERVAL = "interval"
    ROLL = "roll"


class Settings(Values, noun="setting", aliases={"node.id": "broker.id", "log.dir": "log.dirs"}):
    # Aliases: `node.id` is KRaft's name, `log.dir` Kafka's oldest.

    broker_id = row(int32(0), REQUIRED, "The broker's id in the cluster.", group="Identity")
    broker_rack = row(Word(), None, "Its rack or zone; replicas are spread over racks.")

    # ------------------------------------------------------------ connections
    listeners = row(
        ListenerKind(),
        Endpoint("", 9092),
        "Address to listen on; an empty host means all interfaces, port 0 any free port.",
        group="Connections",
    )
    advertised_listeners = row(
        ListenerKind(), None, "Address that clients and other brokers connect to; the listener if empty."
    )
    tidelog_peer_routes = row(
        Routes(),
        (),
        "Connect to other brokers at these addresses instead of the advertised ones: for tunnels, proxies "
        "and trials.",
    )
    socket_request_max_bytes = row(int32(1), 104_857_600, "Maximum size of a request.")
    max_connections = row(int32(0), INT_MAX, "Maximum open connections.")
    max_connections_per_ip = row(int32(0), INT_MAX, "Maximum open connections from one address.")
    connections_max_idle_ms = row(int64(), 600_000, "Idle connections are closed after this time.")
    queued_max_requests = row(
        int32(1), 500, "Maximum unanswered requests of one connection; beyond it the broker stops reading."
    )
    queued_max_request_bytes = row(
        int64(-1),
        268_435_456,
        "Memory for incomplete requests of all connections. Beyond it large requests wait, and are read "
        "one at a time. -1, Kafka's default: no limit.",
    )
    fetch_max_bytes = row(int32(1024), 57_671_680, "Maximum size of a Fetch response.")
    max_incremental_fetch_session_cache_slots = row(
        int32(0), 1_000, "Maximum number of fetch sessions. A client without one names all its partitions."
    )
    message_max_bytes = row(int32(0), 1_048_588, "Maximum size of a record batch.")

    # ------------------------------------------------------------ keeper
    zookeeper_connect = row(ZooKeeperAddress(), "", "The ZooKeeper ensemble of the cluster.", group="Keeper")
    tidelog_keeper = row(
        KeeperUrl(),
        "",
        "The keeper's URL, instead of `zookeeper.connect`: `embedded://host:port` or `zookeeper://…`.",
    )
    zookeeper_session_timeout_ms = row(
        int32(1), 18_000, "A broker loses its session after this time without contact (`tidelog up`: 4000)."
    )
    zookeeper_connection_timeout_ms = row(
        int32(1), None, "How long to wait for the keeper at startup; the session timeout if empty."
    )

    # ------------------------------------------------------------ topics
    num_partitions = row(
        Integer(1, PARTITIONS_PER_REQUEST_MAX),
        1,
        "Default number of partitions of a new topic, at most 10,000.",
        group="Topics",
    )
    default_replication_factor = row(
        int32(1),
        1,
        "Default number of replicas of a new topic (`tidelog up`: 3, or the number of brokers if smaller).",
    )
    auto_create_topics_enable = row(Truth(), True, "Create a missing topic when a client asks for it.")
    delete_topic_enable = row(Truth(), True, "Allow topics to be deleted.")
    min_insync_replicas = row(
        int32(1), 1, "In-sync replicas that a write with acks=all needs; topics can override it."
    )
    unclean_leader_election_enable = row(
        Truth(), False, "Elect a replica that is not in sync if no other is left: loses records."
    )
    unclean_leader_election_interval_ms = row(
        int64(1),
        300_000,
        "Under the rules `elr`: how often to look for partitions that may be led uncleanly by now.",
    )
    compression_type = row(
        words("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        "producer",
        "Batches stay as the producer compressed them; other values have no effect.",
    )

    # ------------------------------------------------------------ replication
    tidelog_generation = row(
        words(*GENERATIONS),
        "epoch",
        "The replication rules: those of Kafka 0.10, 0.11, 2.7 or 4.1, or a majority as in Raft.",
        group="Replication",
    )
    eligible_leader_replicas_version = row(
        Integer(0, 1),
        1,
        "Under the rules `elr`: 1 tracks eligible leader replicas (KIP-966), 0 does not.",
    )
    replica_lag_time_max_ms = row(
        int64(1), 30_000, "A follower that has not caught up for this time leaves the ISR."
    )
    tidelog_isr_rule = row(
        members(IsrRule),
        IsrRule.CAUGHT_UP_TIME,
        "When a follower leaves the ISR: not caught up for `replica.lag.time.max.ms`; or as before Kafka "
        "0.9: no fetch for that time, or more than `replica.lag.max.messages` behind.",
    )
    replica_lag_max_messages = row(
        int64(1),
        4_000,
        "With `tidelog.isr.rule=message-lag`: a follower that is more records behind leaves the ISR.",
    )
    tidelog_isr_notification_interval_ms = row(
        int64(1),
        2_500,
        "Under the rules `hw` and `kip101`: how often a broker looks for ISR changes to notify the "
        "controller of; it waits until none was made for twice as long.",
    )
    replica_selector_class = row(
        members(ReplicaSelector),
        ReplicaSelector.LEADER,
        "Which replica a consumer is sent to: the leader, or one in the rack that the consumer names "
        "(`client.rack`); under `epoch` and `elr`.",
    )
    replica_fetch_wait_max_ms = row(
        int32(0), 500, "How long a leader may delay a follower's fetch while there are no new records."
    )
    replica_fetch_backoff_ms = row(int32(0), 1_000, "A follower's pause after a failed fetch.")
    replica_fetch_max_bytes = row(
        int32(0), 1_048_576, "Maximum bytes that a follower fetches from one partition."
    )
    replica_fetch_response_max_bytes = row(int32(0), 10_485_760, "Maximum bytes of one fetch of a follower.")
    replica_high_watermark_checkpoint_interval_ms = row(
        int64(1), 5_000, "How often high watermarks are checkpointed."
    )
    auto_leader_rebalance_enable = row(
        Truth(),
        True,
        "Give leadership back to the preferred (first) replica of a partition after it returns.",
    )
    leader_imbalance_check_interval_seconds = row(
        int64(1), 300, "How often to check for leaders that are not preferred."
    )
    leader_imbalance_per_broker_percentage = row(
        Integer(0, 100),
        10,
        "Share of its preferred leaderships that a broker may lack before they are given back.",
    )
    controlled_shutdown_enable = row(Truth(), True, "Move leadership away before the process ends.")
    controlled_shutdown_max_retries = row(int32(0), 3, "How often to retry a controlled shutdown.")
    controlled_shutdown_retry_backoff_ms = row(
        int64(0), 5_000, "Pause between two attempts of a controlled shutdown."
    )
    controller_socket_timeout_ms = row(
        int32(1), 30_000, "How long a controlled shutdown waits for the controller's answer."
    )

    # ------------------------------------------------------------ logs
    log_dirs = row(
        Folder(),
        Path("/tmp/tidelog-logs"),
        "The log directory (only one). The default differs from Kafka's, so that the two never share one.",
        group="Logs",
    )
    tidelog_flush = row(
        members(Flush),
        Flush.ROLL,
        "When logs are synced to disk: before every acknowledgement, at `log.flush.interval.*`, or when a "
        "segment is rolled (Kafka's default).",
    )
    log_segment_bytes = row(int32(14), 1_073_741_824, "A segment is rolled at this size.")
    log_roll_ms = row(int64(1), None, "A segment is rolled at this age.")
    log_roll_hours = row(int32(1), 168, "The same in hours, used if `log.roll.ms` is empty.")
    log_retention_ms = row(int64(-1), None, "Segments older than this are deleted; -1: never.")
    log_retention_minutes = row(int32(-1), None, "The same in minutes, used if `log.retention.ms` is empty.")
    log_retention_hours = row(int32(-1), 168, "The same in hours, used if both are empty.")
    log_retention_bytes = row(
        int64(-1), -1, "A partition's oldest segments are deleted beyond this size; -1: never."
    )
    log_retention_check_interval_ms = row(int64(1), 300_000, "How often retention is checked.")
    log_segment_delete_delay_ms = row(
        int64(0), 60_000, "Without effect: files are removed at once; readers keep theirs open."
    )
    log_cleanup_policy = row(
        Listed(words("delete", "compact")),
        ("delete",),
        "delete: remove old segments. compact: remove records whose key was written again.",
    )
    log_cleaner_enable = row(Truth(), True, "Compact logs with `cleanup.policy=compact`.")
    log_cleaner_backoff_ms = row(int64(0), 15_000, "How often to check for logs to compact.")
    log_cleaner_dedupe_buffer_size = row(
        int64(1),
        134_217_728,
        "Memory for the keys of a compaction, about 200 bytes each; more keys need several passes.",
    )
    log_cleaner_io_max_bytes_per_second = row(
        Number(1), None, "Maximum reading speed of compaction; empty: no limit."
    )
    log_cleaner_min_cleanable_ratio = row(
        Number(0, 1), 0.5, "Compact a log when at least this share of it has not been compacted."
    )
    log_cleaner_max_compaction_lag_ms = row(
        int64(1), LONG_MAX, "Compact a log when a record has waited for this time."
    )
    log_cleaner_min_compaction_lag_ms = row(int64(0), 0, "Records younger than this are not compacted.")
    log_cleaner_delete_retention_ms = row(
        int64(0),
        24 * _HOUR_MS,
        "How long a record without a value (tombstone) is kept after its first compaction.",
    )
    log_flush_interval_messages = row(
        int64(1), LONG_MAX, "With `tidelog.flush=interval`: sync after this many records."
    )
    log_flush_interval_ms = row(int64(0), None, "With `tidelog.flush=interval`: sync after this time.")
    log_flush_scheduler_interval_ms = row(int64(0), LONG_MAX, "Used if `log.flush.interval.ms` is empty.")
    log_flush_offset_checkpoint_interval_ms = row(
        int32(0), 60_000, "How often recovery points are checkpointed."
    )
    log_flush_start_offset_checkpoint_interval_ms = row(
        int32(0), 60_000, "How often log start offsets are checkpointed."
    )
    log_index_interval_bytes = row(int32(0), 4_096, "Bytes of log per index entry.")
    log_index_size_max_bytes = row(int32(32), 10_485_760, "Maximum size of an index file.")
    log_preallocate = row(Truth(), False, "Without effect: files grow as they are written.")
    log_message_timestamp_type = row(
        words("CreateTime", "LogAppendTime"),
        "CreateTime",
        "Timestamps of records: of the producer or of the broker at the append.",
    )
    log_message_timestamp_difference_max_ms = row(
        int64(0), LONG_MAX, "Maximum difference between a record's timestamp and the broker's clock."
    )
    producer_id_expiration_ms = row(
        int32(1), 24 * _HOUR_MS, "An idempotent producer is forgotten after this time without a write."
    )
    tidelog_clock_offset_ms = row(
        int64(), 0, "Added to the machine's clock, to test the effects of a wrong clock."
    )

    # ------------------------------------------------------------ groups
    group_min_session_timeout_ms = row(
        int32(0), 6_000, "Minimum session timeout of a member.", group="Consumer groups"
    )
    group_max_session_timeout_ms = row(int32(0), 1_800_000, "Maximum session timeout of a member.")
    group_initial_rebalance_delay_ms = row(
        int32(0), 3_000, "How long a new group waits for more members (`tidelog up`: 0)."
    )
    group_max_size = row(int32(1), INT_MAX, "Maximum members of a group.")
    offset_metadata_max_bytes = row(int32(0), 4_096, "Maximum metadata of a committed offset.")
    offsets_topic_num_partitions = row(
        Integer(1, 100), 50, "Partitions of `__consumer_offsets` (`tidelog up`: 10)."
    )
    offsets_topic_replication_factor = row(
        int32(1), 3, "Replicas of `__consumer_offsets` (`tidelog up`: at most the number of brokers)."
    )
    offsets_topic_segment_bytes = row(int32(1), 104_857_600, "Segment size of `__consumer_offsets`.")
    offsets_retention_minutes = row(int32(1), 10_080, "How long offsets of an empty group are kept.")
    offsets_retention_check_interval_ms = row(int64(1), 600_000, "How often expired offsets are removed.")
    offsets_commit_timeout_ms = row(int32(1), 5_000, "How long a commit may take to be replicated.")

    # ------------------------------------------------------------ monitoring
    tidelog_metrics_port = row(
        MetricsPort(),
        -1,
        "Port for Prometheus metrics; 0 any free port, -1 or empty none (`tidelog up`: 0).",
        group="Monitoring",
    )
    tidelog_log_level = row(
        words("debug", "info", "warning", "error"), "info", "Minimum level of log messages."
    )
    tidelog_evidence_dir = row(
        Folder(), None, "Directory for recorded events, for an audit; empty: do not record."
    )

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        if not self.zookeeper_connect and not self.tidelog_keeper:
            text = "no keeper: set zookeeper.connect=host:port or tidelog.keeper=URL"
            raise SettingsError(text, lacks="tidelog.keeper")
        if self.zookeeper_connect and self.tidelog_keeper:
            raise SettingsError("two keepers: set only one of zookeeper.connect and tidelog.keeper")
        advertised = self.advertised_listeners
        if advertised is not None and advertised.host in ("", "0.0.0.0", "::"):
            raise SettingsError("advertised.listeners: name a host that clients can connect to")
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise SettingsError(
                "replica.fetch.wait.max.ms exceeds replica.lag.time.max.ms: idle replicas would leave the ISR"
            )

    # ------------------------------------------------------------ derived values

    @property
    def keeper_url(self) -> str:
        return self.tidelog_keeper or f"zookeeper://{self.zookeeper_connect}"

    @property
    def connection_timeout_ms(self) -> int:
        chosen = self.zookeeper_connection_timeout_ms
        return self.zookeeper_session_timeout_ms if chosen is None else chosen

    def advertised(self, bound_port: int) -> Endpoint:
        """The advertised address, once the listener is bound to a port."""
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
        """The settings of the core."""
        return BrokerConfig(
            replica_lag_time_max_ms=self.replica_lag_time_max_ms,
            replica_lag_max_messages=self.replica_lag_max_messages,
            isr_rule=self.tidelog_isr_rule,
            isr_notification_interval_ms=self.tidelog_isr_notification_interval_ms,
            replica_selector=self.replica_selector_class,
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
            unclean_leader_election_interval_ms=self.unclean_leader_election_interval_ms,
        )

    def guards(self) -> Guards:
        """Of the replication rules."""
        guards = GENERATIONS[self.tidelog_generation].guards
        return replace(guards, eligible_leader_replicas=self.eligible_leader_replicas_version == 1)


def _scaled(value: int, unit_ms: int) -> int:
    return value * unit_ms if value >= 0 else -1


BROKER: Final = Settings.table
