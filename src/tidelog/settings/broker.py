"""The settings of a broker: each with its kind, its default and what it does.

A setting has Kafka 2.7's default unless its text says otherwise. Names that begin with `tidelog.` are ours.
A new one is a row here and the line that obeys it. What a broker says about all its logs is the default of
its topics' settings, see `topic`.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tidelog.core.config import BrokerConfig, IsrRule
from tidelog.core.controller.topic_creation import PARTITIONS_PER_REQUEST_MAX
from tidelog.core.generations import GENERATIONS
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
    """When what was appended is synced to disk."""

    ALWAYS = "always"
    INTERVAL = "interval"
    ROLL = "roll"


class Settings(Values, noun="setting", aliases={"node.id": "broker.id", "log.dir": "log.dirs"}):
    # Of the other names the first is KRaft's, the second Kafka's oldest.

    broker_id = row(int32(0), REQUIRED, "The broker's number in the cluster.", group="Identity")
    broker_rack = row(Word(), None, "Its rack or zone; replicas are spread over racks.")

    # ------------------------------------------------------------ connections
    listeners = row(
        ListenerKind(),
        Endpoint("", 9092),
        "Where it listens; no host is every interface, port 0 any free one.",
        group="Connections",
    )
    advertised_listeners = row(
        ListenerKind(), None, "The address that clients and other brokers connect to; the listener if empty."
    )
    tidelog_peer_routes = row(
        Routes(),
        (),
        "Reach other brokers through these addresses instead of those they advertise: for tunnels, proxies "
        "and trials.",
    )
    socket_request_max_bytes = row(int32(1), 104_857_600, "The largest request it reads.")
    max_connections = row(int32(0), INT_MAX, "Connections it accepts at once.")
    max_connections_per_ip = row(int32(0), INT_MAX, "Connections it accepts from one address.")
    connections_max_idle_ms = row(int64(), 600_000, "Idle connections are closed after this.")
    queued_max_requests = row(
        int32(1), 500, "Requests it holds unanswered for one connection before it stops reading from it."
    )
    queued_max_request_bytes = row(
        int64(-1),
        268_435_456,
        "Memory for the requests that are arriving, of all connections together. Beyond it large ones wait, "
        "and one at a time goes on. -1, Kafka's default: no bound.",
    )
    fetch_max_bytes = row(int32(1024), 57_671_680, "The most it returns to one Fetch request.")
    message_max_bytes = row(int32(0), 1_048_588, "The largest record batch it takes.")

    # ------------------------------------------------------------ keeper
    zookeeper_connect = row(
        ZooKeeperAddress(), "", "The ZooKeeper ensemble that holds the cluster together.", group="Keeper"
    )
    tidelog_keeper = row(
        KeeperUrl(), "", "The keeper instead: `embedded://host:port`, or `zookeeper://` as above."
    )
    zookeeper_session_timeout_ms = row(
        int32(1), 18_000, "A broker silent for so long counts as dead (`tidelog up`: 4000)."
    )
    zookeeper_connection_timeout_ms = row(
        int32(1), None, "How long to wait for the keeper at the start; the session timeout if empty."
    )

    # ------------------------------------------------------------ topics
    num_partitions = row(
        Integer(1, PARTITIONS_PER_REQUEST_MAX),
        1,
        "Partitions of a topic for which none are named, at most 10,000.",
        group="Topics",
    )
    default_replication_factor = row(
        int32(1), 1, "Replicas of such a topic (`tidelog up`: 3, or as many as there are brokers)."
    )
    auto_create_topics_enable = row(Truth(), True, "Create a topic when a client asks for it.")
    delete_topic_enable = row(Truth(), True, "Allow topics to be deleted.")
    min_insync_replicas = row(
        int32(1), 1, "With acks=all a write needs so many in-sync replicas; topics may differ."
    )
    unclean_leader_election_enable = row(
        Truth(), False, "Let a replica lead that is not in sync if no other is left: loses records."
    )
    compression_type = row(
        words("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        "producer",
        "Batches stay as the producer compressed them; nothing else is supported.",
    )

    # ------------------------------------------------------------ replication
    tidelog_generation = row(
        words(*GENERATIONS),
        "epoch",
        "The replication rules: of Kafka 0.10, 0.11, 2.7, or a majority as in Raft.",
        group="Replication",
    )
    replica_lag_time_max_ms = row(
        int64(1), 30_000, "A follower that did not catch up for so long leaves the ISR."
    )
    tidelog_isr_rule = row(
        members(IsrRule),
        IsrRule.CAUGHT_UP_TIME,
        "What makes a follower leave the ISR: not caught up for `replica.lag.time.max.ms`; as before Kafka "
        "0.9 no fetch for so long, or being behind by more than `replica.lag.max.messages`.",
    )
    replica_lag_max_messages = row(
        int64(1), 4_000, "With `tidelog.isr.rule=message-lag`: a follower so far behind leaves the ISR."
    )
    replica_fetch_wait_max_ms = row(
        int32(0), 500, "How long a leader may hold a follower's fetch when there is nothing new."
    )
    replica_fetch_backoff_ms = row(int32(0), 1_000, "A follower's pause after a failed fetch.")
    replica_fetch_max_bytes = row(int32(0), 1_048_576, "What a follower fetches of one partition.")
    replica_fetch_response_max_bytes = row(int32(0), 10_485_760, "And of all partitions at once.")
    replica_high_watermark_checkpoint_interval_ms = row(
        int64(1), 5_000, "How often high watermarks are written down."
    )
    auto_leader_rebalance_enable = row(
        Truth(), True, "Give leadership back to the first replica of a partition when it has returned."
    )
    leader_imbalance_check_interval_seconds = row(int64(1), 300, "How often to look for that.")
    leader_imbalance_per_broker_percentage = row(
        Integer(0, 100), 10, "How many of its leaderships a broker may lack before that happens."
    )
    controlled_shutdown_enable = row(Truth(), True, "Hand leadership over before the process ends.")
    controlled_shutdown_max_retries = row(int32(0), 3, "How often to try that.")
    controlled_shutdown_retry_backoff_ms = row(int64(0), 5_000, "The pause between two tries.")
    controller_socket_timeout_ms = row(int32(1), 30_000, "How long a try waits for the controller's answer.")

    # ------------------------------------------------------------ logs
    log_dirs = row(
        Folder(),
        Path("/tmp/tidelog-logs"),
        "The directory of its logs, one. Not Kafka's default, so that the two never share one.",
        group="Logs",
    )
    tidelog_flush = row(
        members(Flush),
        Flush.ROLL,
        "When logs are synced to disk: before every acknowledgement, as `log.flush.interval.*` say, or when "
        "a segment is rolled (Kafka's way).",
    )
    log_segment_bytes = row(int32(14), 1_073_741_824, "A segment is rolled at this size,")
    log_roll_ms = row(int64(1), None, "or at this age;")
    log_roll_hours = row(int32(1), 168, "the age in hours where `log.roll.ms` is empty.")
    log_retention_ms = row(int64(-1), None, "Segments older than this are deleted; -1: none;")
    log_retention_minutes = row(int32(-1), None, "in minutes where that is empty,")
    log_retention_hours = row(int32(-1), 168, "in hours where both are.")
    log_retention_bytes = row(int64(-1), -1, "A partition's oldest segments go beyond this; -1: never.")
    log_retention_check_interval_ms = row(int64(1), 300_000, "How often to look for such segments.")
    log_segment_delete_delay_ms = row(
        int64(0), 60_000, "Without effect: files are removed at once, readers hold on to open ones."
    )
    log_cleanup_policy = row(
        Listed(words("delete", "compact")),
        ("delete",),
        "What becomes of old records: they go with their segment, or when their key is written again.",
    )
    log_cleaner_enable = row(Truth(), True, "Compact the logs of which `cleanup.policy` says so.")
    log_cleaner_backoff_ms = row(int64(0), 15_000, "How often to look for a log to compact.")
    log_cleaner_dedupe_buffer_size = row(
        int64(1), 134_217_728, "Memory for keys, about 200 bytes each; more keys take several passes."
    )
    log_cleaner_io_max_bytes_per_second = row(
        Number(1), None, "Read no faster than this when compacting; empty: as fast as it goes."
    )
    log_cleaner_min_cleanable_ratio = row(
        Number(0, 1), 0.5, "Compact a log when so large a share of it has not been compacted,"
    )
    log_cleaner_max_compaction_lag_ms = row(int64(1), LONG_MAX, "or when a record has waited so long,")
    log_cleaner_min_compaction_lag_ms = row(int64(0), 0, "but no record that is younger than this.")
    log_cleaner_delete_retention_ms = row(
        int64(0), 24 * _HOUR_MS, "A record without a value is kept so long after compaction met it."
    )
    log_flush_interval_messages = row(
        int64(1), LONG_MAX, "With `tidelog.flush=interval`: sync after so many records,"
    )
    log_flush_interval_ms = row(int64(0), None, "or after so long;")
    log_flush_scheduler_interval_ms = row(
        int64(0), LONG_MAX, "and that is `log.flush.interval.ms` where it is empty."
    )
    log_flush_offset_checkpoint_interval_ms = row(
        int32(0), 60_000, "How often recovery points are written down."
    )
    log_flush_start_offset_checkpoint_interval_ms = row(
        int32(0), 60_000, "How often log start offsets are written down."
    )
    log_index_interval_bytes = row(int32(0), 4_096, "One index entry for so many bytes of log.")
    log_index_size_max_bytes = row(int32(32), 10_485_760, "The largest index file.")
    log_preallocate = row(Truth(), False, "Without effect: space is reserved as it is used.")
    log_message_timestamp_type = row(
        words("CreateTime", "LogAppendTime"), "CreateTime", "Whose clock stamps records."
    )
    log_message_timestamp_difference_max_ms = row(
        int64(0), LONG_MAX, "How far a producer's clock may be off before its records are refused."
    )
    producer_id_expiration_ms = row(
        int32(1), 24 * _HOUR_MS, "An idempotent producer that is silent for so long is forgotten."
    )
    tidelog_clock_offset_ms = row(
        int64(), 0, "How far its clock is ahead of its machine's, or behind: to see what a wrong one does."
    )

    # ------------------------------------------------------------ groups
    group_min_session_timeout_ms = row(
        int32(0), 6_000, "The shortest session timeout a member may ask for.", group="Consumer groups"
    )
    group_max_session_timeout_ms = row(int32(0), 1_800_000, "The longest.")
    group_initial_rebalance_delay_ms = row(
        int32(0), 3_000, "How long a new group waits for more members (`tidelog up`: 0)."
    )
    group_max_size = row(int32(1), INT_MAX, "Members of a group.")
    offset_metadata_max_bytes = row(int32(0), 4_096, "Text that may go with a committed offset.")
    offsets_topic_num_partitions = row(
        Integer(1, 100), 50, "Partitions of the offsets topic (`tidelog up`: 10)."
    )
    offsets_topic_replication_factor = row(
        int32(1), 3, "Its replicas (`tidelog up`: at most as many as there are brokers)."
    )
    offsets_topic_segment_bytes = row(int32(1), 104_857_600, "The size of its segments.")
    offsets_retention_minutes = row(int32(1), 10_080, "Offsets of an empty group are kept so long.")
    offsets_retention_check_interval_ms = row(int64(1), 600_000, "How often to look for such.")
    offsets_commit_timeout_ms = row(int32(1), 5_000, "How long a commit may take to be replicated.")

    # ------------------------------------------------------------ watching
    tidelog_metrics_port = row(
        MetricsPort(),
        -1,
        "Serve Prometheus metrics here; 0 any free port, -1 or empty not at all (`tidelog up`: 0).",
        group="Watching",
    )
    tidelog_log_level = row(
        words("debug", "info", "warning", "error"), "info", "What is worth a line in its log."
    )
    tidelog_evidence_dir = row(Folder(), None, "Write what happened there, for an audit; empty: nowhere.")

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
            isr_rule=self.tidelog_isr_rule,
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


def _scaled(value: int, unit_ms: int) -> int:
    return value * unit_ms if value >= 0 else -1


BROKER: Final = Settings.table
