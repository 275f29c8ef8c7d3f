"""UpdateMetadata (6), from the controller: updates of a broker's metadata cache.

Versions as in Kafka 2.7: 1 has several endpoints per broker, 5 groups by topic and adds the broker epoch
(KIP-380).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import NO_UUID, Int16, Int32, Int64, String, Uuid, field, struct


@struct
class UpdateMetadataPartitionState:
    """`zk_version` is the version of the state in the keeper. The tagged fields are tidelog's own."""

    topic_name: String = field("", until=4)
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: list[Int32]
    zk_version: Int32
    replicas: list[Int32]
    offline_replicas: list[Int32] = field([], since=4)
    eligible_leader_replicas: list[Int32] = field([], since=6, tag=1000)
    last_known_elr: list[Int32] = field([], since=6, tag=1001)


@struct
class UpdateMetadataTopicState:
    """`topic_id` is tidelog's own field here; Kafka has it since version 7."""

    topic_name: String
    partition_states: list[UpdateMetadataPartitionState]
    topic_id: Uuid = field(NO_UUID, since=6, tag=1000)


@struct
class UpdateMetadataEndpoint:
    port: Int32
    host: String
    listener: String = field("", since=3)
    security_protocol: Int16


@struct
class UpdateMetadataBroker:
    id: Int32
    v0_host: String = field("", until=0)
    v0_port: Int32 = field(0, until=0)
    endpoints: list[UpdateMetadataEndpoint] = field([], since=1)
    rack: String | None = field(None, since=2)


@struct
class UpdateMetadataRequest:
    controller_id: Int32
    controller_epoch: Int32
    broker_epoch: Int64 = field(-1, since=5)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field([], until=4)
    topic_states: list[UpdateMetadataTopicState] = field([], since=5)
    live_brokers: list[UpdateMetadataBroker]


@struct
class UpdateMetadataResponse:
    error_code: Int16 = 0


describes(
    Api.UPDATE_METADATA, UpdateMetadataRequest, UpdateMetadataResponse, versions=(0, 6), flexible_since=6
)
