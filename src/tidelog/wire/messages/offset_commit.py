"""OffsetCommit (8): store the committed offsets of a consumer group.

Versions: 2–4 carry a retention time, 6 leader epochs (KIP-320), 7 static members (KIP-345).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, Int32, Int64, String, field, struct


@struct
class OffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(-1, since=6)
    committed_metadata: String | None


@struct
class OffsetCommitRequestTopic:
    name: String
    partitions: list[OffsetCommitRequestPartition]


@struct
class OffsetCommitRequest:
    group_id: String
    generation_id_or_member_epoch: Int32 = -1
    member_id: String
    group_instance_id: String | None = field(None, since=7)
    retention_time_ms: Int64 = field(-1, until=4)
    topics: list[OffsetCommitRequestTopic]


@struct
class OffsetCommitResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic:
    name: String
    partitions: list[OffsetCommitResponsePartition]


@struct
class OffsetCommitResponse:
    throttle_time_ms: Int32 = field(0, since=3)
    topics: list[OffsetCommitResponseTopic]


describes(Api.OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse, versions=(2, 8), flexible_since=8)
