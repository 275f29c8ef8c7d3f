"""The broker settings that replication uses, with Kafka's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidelog.core.types import Millis


class IsrRule(Enum):
    """When a follower leaves the ISR. The first two rules are Kafka's before 0.9."""

    FETCH_TIME = "fetch-time"
    """It sent no fetch for ``replica.lag.time.max.ms``."""
    MESSAGE_LAG = "message-lag"
    """It is more than ``replica.lag.max.messages`` behind the leader's log end."""
    CAUGHT_UP_TIME = "caught-up-time"
    """It has not been caught up with the leader's log end for ``replica.lag.time.max.ms``."""


class ReplicaSelector(Enum):
    """The replica that a leader names to consumers of Fetch 11 (KIP-392). Values are Kafka's classes."""

    LEADER = "org.apache.kafka.common.replica.LeaderSelector"
    """Always itself."""
    RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    """One in the consumer's own rack, if there is one that has what it asks for."""


@dataclass(slots=True, frozen=True)
class BrokerConfig:
    replica_lag_time_max_ms: Millis = 30_000
    replica_lag_max_messages: int = 4_000
    isr_rule: IsrRule = IsrRule.CAUGHT_UP_TIME
    isr_notification_interval_ms: Millis = 2_500
    replica_selector: ReplicaSelector = ReplicaSelector.LEADER
    replica_fetch_wait_max_ms: Millis = 500
    replica_fetch_backoff_ms: Millis = 1_000
    high_watermark_checkpoint_interval_ms: Millis = 5_000
    controlled_shutdown_max_retries: int = 3
    controlled_shutdown_retry_backoff_ms: Millis = 5_000
    controller_socket_timeout_ms: Millis = 30_000
    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    unclean_leader_election_interval_ms: Millis = 300_000
