"""ElectLeaders (43): elect the preferred leader, or since version 1 an unclean one (KIP-460)."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int8, Int16, Int32, String, field, struct


@struct
class TopicPartitions:
    topic: String
    partitions: list[Int32]


@struct
class ElectLeadersRequest:
    """`election_type` is 0 for the preferred leader, 1 for an unclean one; `topic_partitions` is None for all
    partitions."""

    election_type: Int8 = field(0, since=1)
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: Int32 = 60000


@struct
class PartitionResult:
    partition_id: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class ReplicaElectionResult:
    topic: String
    partition_result: list[PartitionResult]


@struct
class ElectLeadersResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(0, since=1)
    replica_election_results: list[ReplicaElectionResult]


describes(Api.ELECT_LEADERS, ElectLeadersRequest, ElectLeadersResponse, versions=(0, 2), flexible_since=2)
