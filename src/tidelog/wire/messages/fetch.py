"""Fetch (1): read record batches from partitions, as a consumer or as a follower.

Versions: 4 isolation levels, 7 fetch sessions (KIP-227), 9 leader epochs (KIP-320), 11 the nearest replica
(KIP-392), 12 flexible, with the diverging epoch in the answer (KIP-595). Version 13 and later name topics by
id.
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int8, Int16, Int32, Int64, Records, String, field, frozen_struct, struct


@struct
class FetchPartition:
    """The leader finds with `last_fetched_epoch` where the follower's log diverges from its own."""

    partition: Int32
    current_leader_epoch: Int32 = field(-1, since=9)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field(-1, since=12)
    log_start_offset: Int64 = field(-1, since=5)
    partition_max_bytes: Int32


@struct
class FetchTopic:
    topic: String
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    """Partitions that leave a fetch session."""

    topic: String
    partitions: list[Int32]


@struct
class FetchRequest:
    """`replica_id` is -1 for a consumer. `replica_epoch`, the follower's broker epoch (KIP-903), is tidelog's
    own field here; Kafka has it since version 15."""

    cluster_id: String | None = field(None, since=12, tag=0)
    replica_id: Int32 = -1
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(0x7FFFFFFF, since=3)
    isolation_level: Int8 = field(0, since=4)
    session_id: Int32 = field(0, since=7)
    session_epoch: Int32 = field(-1, since=7)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field([], since=7)
    rack_id: String = field("", since=11)
    replica_epoch: Int64 = field(-1, since=12, tag=1000)


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
    topic: String
    partitions: list[PartitionData]


@struct
class FetchResponse:
    throttle_time_ms: Int32 = field(0, since=1)
    error_code: Int16 = field(0, since=7)
    session_id: Int32 = field(0, since=7)
    responses: list[FetchableTopicResponse]


describes(Api.FETCH, FetchRequest, FetchResponse, versions=(4, 12), flexible_since=12)
