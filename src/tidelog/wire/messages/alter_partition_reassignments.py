"""AlterPartitionReassignments (45): move replicas, or cancel a move (KIP-455)."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, Int32, String, struct


@struct
class ReassignablePartition:
    """`replicas` is None to cancel the move."""

    partition_index: Int32
    replicas: list[Int32] | None = None


@struct
class ReassignableTopic:
    name: String
    partitions: list[ReassignablePartition]


@struct
class AlterPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    topics: list[ReassignableTopic]


@struct
class ReassignablePartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class ReassignableTopicResponse:
    name: String
    partitions: list[ReassignablePartitionResponse]


@struct
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[ReassignableTopicResponse]


describes(
    Api.ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    versions=(0, 0),
    flexible_since=0,
)
