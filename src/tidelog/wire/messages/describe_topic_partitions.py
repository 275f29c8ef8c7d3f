"""DescribeTopicPartitions (75): the partitions of topics, page by page, with their eligible leader replicas.

Since Kafka 3.7 (KIP-966). The format allows null for `eligible_leader_replicas` and `last_known_elr`, but no
broker sends it: where the cluster does not track them, they are empty.
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.operations import NOT_ASKED
from tidelog.wire.schema import NO_UUID, Bool, Int16, Int32, String, Uuid, struct


@struct
class TopicRequest:
    name: String


@struct
class Cursor:
    topic_name: String
    partition_index: Int32


@struct
class DescribeTopicPartitionsRequest:
    """No `topics`: all. `cursor`: where to begin, from the previous response."""

    topics: list[TopicRequest]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32]


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: Int16 = 0
    name: String | None
    topic_id: Uuid = NO_UUID
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = NOT_ASKED


@struct
class DescribeTopicPartitionsResponse:
    """`next_cursor`: where the next request should begin; None at the end."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None


describes(
    Api.DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    versions=(0, 0),
    flexible_since=0,
)
