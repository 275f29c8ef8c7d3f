"""AlterIsr (56), to the controller: a leader proposes a new set of in-sync replicas (KIP-497).

As in Kafka 2.7; later it was renamed AlterPartition and topics got ids. Kafka calls the parts of the answer
TopicData and PartitionData like those of the request; here they have names of their own.
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import NO_UUID, Int16, Int32, Int64, String, Uuid, field, struct


@struct
class PartitionData:
    """`new_isr_epochs`, tidelog's own field, holds the members' broker epochs as the leader knows them
    (KIP-903)."""

    partition_index: Int32
    leader_epoch: Int32
    new_isr: list[Int32]
    current_isr_version: Int32
    new_isr_epochs: list[Int64] = field([], tag=1000)


@struct
class TopicData:
    """`topic_id` is tidelog's own field here; Kafka has it since AlterPartition 2."""

    name: String
    partitions: list[PartitionData]
    topic_id: Uuid = field(NO_UUID, tag=1000)


@struct
class AlterIsrRequest:
    broker_id: Int32
    broker_epoch: Int64 = -1
    topics: list[TopicData]


@struct
class PartitionResult:
    partition_index: Int32
    error_code: Int16 = 0
    leader_id: Int32
    leader_epoch: Int32
    isr: list[Int32]
    current_isr_version: Int32


@struct
class TopicResult:
    name: String
    partitions: list[PartitionResult]


@struct
class AlterIsrResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[TopicResult]


describes(Api.ALTER_ISR, AlterIsrRequest, AlterIsrResponse, versions=(0, 0), flexible_since=0)
