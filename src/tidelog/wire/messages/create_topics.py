"""CreateTopics (19).

Versions: 4 accepts -1 for the broker's default number of partitions or replicas (KIP-464), 5 describes the
created topic in the answer (KIP-525), 7 adds its id (KIP-516).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import NO_UUID, Bool, Int8, Int16, Int32, String, Uuid, field, struct


@struct
class CreatableReplicaAssignment:
    partition_index: Int32
    broker_ids: list[Int32]


@struct
class CreatableTopicConfig:
    name: String
    value: String | None


@struct
class CreatableTopic:
    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@struct
class CreateTopicsRequest:
    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60000
    validate_only: Bool = field(False, since=1)


@struct
class CreatableTopicConfigs:
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool


@struct
class CreatableTopicResult:
    """The fields that describe the topic are -1 or None if creation failed, or if the client may not see
    them."""

    name: String
    topic_id: Uuid = field(NO_UUID, since=7)
    error_code: Int16 = 0
    error_message: String | None = field(None, since=1)
    topic_config_error_code: Int16 = field(0, since=5, tag=0)
    num_partitions: Int32 = field(-1, since=5)
    replication_factor: Int16 = field(-1, since=5)
    configs: list[CreatableTopicConfigs] | None = field(None, since=5)


@struct
class CreateTopicsResponse:
    throttle_time_ms: Int32 = field(0, since=2)
    topics: list[CreatableTopicResult]


describes(Api.CREATE_TOPICS, CreateTopicsRequest, CreateTopicsResponse, versions=(0, 7), flexible_since=5)
