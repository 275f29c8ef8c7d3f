"""OffsetFetch (9): the committed offsets of consumer groups.

Versions: 2 asks for all topics with null, 7 can ask for stable offsets, which no open transaction can still
change (KIP-447), 8 asks for several groups at once, each with its own error (KIP-709).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Bool, Int16, Int32, Int64, String, field, struct


@struct
class OffsetFetchRequestTopic:
    name: String
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestGroup:
    group_id: String
    topics: list[OffsetFetchRequestTopic] | None


@struct
class OffsetFetchRequest:
    group_id: String = field("", until=7)
    topics: list[OffsetFetchRequestTopic] | None = field([], until=7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = field([], since=8)
    require_stable: Bool = field(False, since=7)


@struct
class OffsetFetchResponsePartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(-1, since=5)
    metadata: String | None
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopic:
    name: String
    partitions: list[OffsetFetchResponsePartition]


@struct
class OffsetFetchResponseGroup:
    group_id: String
    topics: list[OffsetFetchResponseTopic]
    error_code: Int16 = 0


@struct
class OffsetFetchResponse:
    throttle_time_ms: Int32 = field(0, since=3)
    topics: list[OffsetFetchResponseTopic] = field([], until=7)
    error_code: Int16 = field(0, since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = field([], since=8)


describes(Api.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse, versions=(1, 8), flexible_since=6)
