"""Fetch (1): read record batches from partitions, as a consumer or as a follower.

Versions: 4 isolation levels, 7 fetch sessions (KIP-227), 9 leader epochs (KIP-320), 11 the nearest replica
(KIP-392), 12 flexible, with the diverging epoch in the answer (KIP-595), 13 topics by id (KIP-516), 14 tiered
storage (KIP-405), 15 the follower's broker epoch (KIP-903), 16 the addresses of new leaders (KIP-951), 17 the
follower's log directory (KIP-853), 18 the high watermark that the follower knows (KIP-1166).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import (
    NO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
    field,
    frozen_struct,
    struct,
)


@struct
class FetchPartition:
    """The leader finds with `last_fetched_epoch` where the follower's log diverges from its own."""

    partition: Int32
    current_leader_epoch: Int32 = field(-1, since=9)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field(-1, since=12)
    log_start_offset: Int64 = field(-1, since=5)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = field(NO_UUID, since=17, tag=0)
    high_watermark: Int64 = field(0x7FFFFFFFFFFFFFFF, since=18, tag=1)


@struct
class FetchTopic:
    """`followed_topic_id` is tidelog's own field: followers name a topic by both."""

    topic: String = field("", until=12)
    topic_id: Uuid = field(NO_UUID, since=13)
    partitions: list[FetchPartition]
    followed_topic_id: Uuid = field(NO_UUID, since=12, until=12, tag=1000)


@struct
class ForgottenTopic:
    """Partitions that leave a fetch session."""

    topic: String = field("", until=12)
    topic_id: Uuid = field(NO_UUID, since=13)
    partitions: list[Int32]


@frozen_struct
class ReplicaState:
    """The follower, and its broker epoch."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchRequest:
    """`replica_id` is -1 for a consumer. `replica_epoch`, the follower's broker epoch (KIP-903), is tidelog's
    own field here; Kafka has it since version 15, in `replica_state`."""

    cluster_id: String | None = field(None, since=12, tag=0)
    replica_id: Int32 = field(-1, until=14)
    replica_state: ReplicaState = field(ReplicaState(), since=15, tag=1)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(0x7FFFFFFF, since=3)
    isolation_level: Int8 = field(0, since=4)
    session_id: Int32 = field(0, since=7)
    session_epoch: Int32 = field(-1, since=7)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field([], since=7)
    rack_id: String = field("", since=11)
    replica_epoch: Int64 = field(-1, since=12, until=12, tag=1000)


@frozen_struct
class EpochEndOffset:
    epoch: Int32 = -1
    end_offset: Int64 = -1


@frozen_struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@frozen_struct
class SnapshotId:
    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    producer_id: Int64
    first_offset: Int64


@struct
class PartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64
    last_stable_offset: Int64 = field(-1, since=4)
    log_start_offset: Int64 = field(-1, since=5)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset(), since=12, tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch(), since=12, tag=1)
    snapshot_id: SnapshotId = field(SnapshotId(), since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(None, since=4)
    preferred_read_replica: Int32 = field(-1, since=11)
    records: Records | None = None


@struct
class FetchableTopicResponse:
    topic: String = field("", until=12)
    topic_id: Uuid = field(NO_UUID, since=13)
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@struct
class FetchResponse:
    throttle_time_ms: Int32 = field(0, since=1)
    error_code: Int16 = field(0, since=7)
    session_id: Int32 = field(0, since=7)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field([], since=16, tag=0)


describes(Api.FETCH, FetchRequest, FetchResponse, versions=(4, 18), flexible_since=12)
