"""CreatePartitions (37): add partitions to topics."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Bool, Int16, Int32, String, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[Int32]


@struct
class CreatePartitionsTopic:
    """`count` is the number of partitions afterwards; with assignments None the controller places them."""

    name: String
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None


@struct
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


@struct
class CreatePartitionsTopicResult:
    name: String
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class CreatePartitionsResponse:
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult]


describes(
    Api.CREATE_PARTITIONS,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    versions=(0, 3),
    flexible_since=2,
)
