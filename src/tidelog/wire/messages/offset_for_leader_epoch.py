"""OffsetForLeaderEpoch (23): where a leader epoch ends in the leader's log (KIP-101, KIP-279).

Followers and consumers find out with it where their log diverges from the leader's. Versions: 1 returns the
epoch that was found, 2 adds the fencing of KIP-320, 3 adds the replica id, -1 for a consumer.
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, Int32, Int64, String, field, struct


@struct
class OffsetForLeaderPartition:
    partition: Int32
    current_leader_epoch: Int32 = field(-1, since=2)
    leader_epoch: Int32


@struct
class OffsetForLeaderTopic:
    topic: String
    partitions: list[OffsetForLeaderPartition]


@struct
class OffsetForLeaderEpochRequest:
    replica_id: Int32 = field(-2, since=3)
    topics: list[OffsetForLeaderTopic]


@struct
class EpochEndOffset:
    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = field(-1, since=1)
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult:
    topic: String
    partitions: list[EpochEndOffset]


@struct
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Int32 = field(0, since=2)
    topics: list[OffsetForLeaderTopicResult]


describes(
    Api.OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    versions=(0, 4),
    flexible_since=4,
)
