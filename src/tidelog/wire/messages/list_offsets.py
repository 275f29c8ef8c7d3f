"""ListOffsets (2): the offset that belongs to a timestamp, or the first or last offset of a partition.

Timestamps -1, -2 and -3 (since 7) ask for the latest offset, the earliest, and the one of the newest record.
Version 4 adds leader epochs (KIP-320).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int8, Int16, Int32, Int64, String, field, struct


@struct
class ListOffsetsPartition:
    partition_index: Int32
    current_leader_epoch: Int32 = field(-1, since=4)
    timestamp: Int64


@struct
class ListOffsetsTopic:
    name: String
    partitions: list[ListOffsetsPartition]


@struct
class ListOffsetsRequest:
    replica_id: Int32
    isolation_level: Int8 = field(0, since=2)
    topics: list[ListOffsetsTopic]


@struct
class ListOffsetsPartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = field(-1, since=4)


@struct
class ListOffsetsTopicResponse:
    name: String
    partitions: list[ListOffsetsPartitionResponse]


@struct
class ListOffsetsResponse:
    throttle_time_ms: Int32 = field(0, since=2)
    topics: list[ListOffsetsTopicResponse]


describes(Api.LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse, versions=(1, 7), flexible_since=6)
