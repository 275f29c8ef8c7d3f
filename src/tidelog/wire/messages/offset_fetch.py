"""OffsetFetch (9): the positions a consumer group has written down.

Since version 2 null asks for all topics; 7 can ask for positions that no open transaction may still change
(KIP-447). Later versions ask for several groups at once.
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api
from tidelog.wire.registry import register
from tidelog.wire.schema import Bool, Int16, Int32, Int64, String, field, struct


@struct
class OffsetFetchRequestTopic:
    name: String
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequest:
    group_id: String
    topics: list[OffsetFetchRequestTopic] | None = field(nullable_since=2)
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
class OffsetFetchResponse:
    throttle_time_ms: Int32 = field(0, since=3)
    topics: list[OffsetFetchResponseTopic]
    error_code: Int16 = field(0, since=2)


register(Api.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse, versions=(1, 7), flexible_since=6)
