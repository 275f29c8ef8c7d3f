"""Messages between clients, brokers and the controller, one class per Kafka request or response.

Kafka's names and fields, one partition per message where Kafka batches several: grouping is a concern of the
connection, not of the rules. Responses repeat the epoch and offset of the request they answer, so that a
receiver can detect late answers. Treat instances as immutable; they are not frozen because the simulator
makes millions of them. Fields are given by name, except in Produce and Fetch: they are most of the messages,
and in CPython 3.11 creating one by keywords takes twice as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypedDict

from tidelog.core.assignments import NOT_MOVING, Reassignment
from tidelog.core.log_port import UNBOUNDED, Batch
from tidelog.core.topic_messages import (
    AlterBrokerConfigRequest,
    AlterBrokerConfigResponse,
    AlterReassignmentRequest,
    AlterReassignmentResponse,
    AlterTopicConfigRequest,
    AlterTopicConfigResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    DescribeTopicConfigRequest,
    DescribeTopicConfigResponse,
    ListReassignmentsRequest,
    ListReassignmentsResponse,
)
from tidelog.core.types import (
    NO_BROKER_EPOCH,
    NO_EPOCH,
    NO_LEADER,
    NO_PRODUCER,
    NO_TOPIC_ID,
    UNKNOWN_OFFSET,
    BrokerEndpoint,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Millis,
    Offset,
    PartitionState,
    TopicId,
    TopicPartition,
)
from tidelog.wire.errors import ErrorCode

ACKS_ALL = -1
CONSUMER = BrokerId(-1)
FOREVER: Millis = 1 << 62
"""The ``max_wait_ms`` of a fetch that waits until there are records, or until its sender withdraws it."""
NO_ERROR = ErrorCode.NONE
"""A constant, because it is used in every step and attribute access on an Enum is slow."""

# ---------------------------------------------------------------- clients and followers → leader


@dataclass(slots=True)
class ProduceRequest:
    tp: TopicPartition
    acks: int
    batch: Batch
    timeout_ms: Millis


@dataclass(slots=True)
class ProduceResponse:
    tp: TopicPartition
    error: ErrorCode
    base_offset: Offset = UNKNOWN_OFFSET


@dataclass(slots=True)
class FetchRequest:
    """``replica`` is the follower's id, or ``CONSUMER``. ``broker_epoch`` is the follower's broker epoch
    (KIP-903), so that a leader never counts records of a process that has been rebooted."""

    tp: TopicPartition
    replica: BrokerId
    offset: Offset
    current_leader_epoch: LeaderEpoch
    max_wait_ms: Millis
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    max_bytes: int = UNBOUNDED
    log_start_offset: Offset = UNKNOWN_OFFSET
    """The start of the follower's own log; DeleteRecords waits for it."""
    from_any_replica: bool = False
    """Whether a follower may answer a consumer (KIP-392)."""
    topic_id: TopicId = NO_TOPIC_ID
    rack: str = ""
    """Where the consumer is, if it says so."""


@dataclass(slots=True)
class FetchResponse:
    tp: TopicPartition
    error: ErrorCode
    offset: Offset
    current_leader_epoch: LeaderEpoch
    high_watermark: Offset = UNKNOWN_OFFSET
    batches: Sequence[Batch] = ()
    log_start_offset: Offset = UNKNOWN_OFFSET
    preferred: BrokerId = NO_LEADER
    """The replica that the consumer is to ask instead."""


@dataclass(slots=True, kw_only=True)
class EpochEndRequest:
    """Kafka's OffsetForLeaderEpoch."""

    tp: TopicPartition
    replica: BrokerId
    current_leader_epoch: LeaderEpoch
    asked_epoch: LeaderEpoch


@dataclass(slots=True, kw_only=True)
class EpochEndResponse:
    tp: TopicPartition
    error: ErrorCode
    current_leader_epoch: LeaderEpoch
    asked_epoch: LeaderEpoch
    epoch: LeaderEpoch = NO_EPOCH
    end_offset: Offset = UNKNOWN_OFFSET


@dataclass(slots=True, kw_only=True)
class ListOffsetsRequest:
    """Asks for the end of the log: the high watermark for a consumer, the log end for a follower."""

    tp: TopicPartition
    replica: BrokerId
    current_leader_epoch: LeaderEpoch


@dataclass(slots=True, kw_only=True)
class ListOffsetsResponse:
    tp: TopicPartition
    error: ErrorCode
    current_leader_epoch: LeaderEpoch
    offset: Offset = UNKNOWN_OFFSET
    log_start_offset: Offset = 0


@dataclass(slots=True, kw_only=True)
class DeleteRecordsRequest:
    """Delete every record below ``offset``; ``UNKNOWN_OFFSET`` means the high watermark."""

    tp: TopicPartition
    offset: Offset
    timeout_ms: Millis


@dataclass(slots=True, kw_only=True)
class DeleteRecordsResponse:
    """``low_watermark`` is the smallest log start among the live replicas."""

    tp: TopicPartition
    error: ErrorCode
    low_watermark: Offset = UNKNOWN_OFFSET


@dataclass(slots=True, kw_only=True)
class MetadataRequest:
    pass


@dataclass(slots=True, kw_only=True)
class MetadataResponse:
    live_brokers: tuple[BrokerId, ...]
    controller: BrokerId
    partitions: dict[TopicPartition, PartitionState]


# ---------------------------------------------------------------- controller → brokers


@dataclass(slots=True, kw_only=True)
class PartitionAssignment:
    """A partition's state together with its replicas in order of preference. ``offline`` are those whose
    broker is alive but cannot use its log."""

    tp: TopicPartition
    replicas: tuple[BrokerId, ...]
    state: PartitionState
    offline: tuple[BrokerId, ...] = ()
    move: Reassignment = NOT_MOVING
    """Which of the replicas are being added or removed."""
    topic_id: TopicId = NO_TOPIC_ID


class ControlHeader(TypedDict):
    """The common fields of controller requests: the sender, its controller epoch, the receiver's broker
    epoch."""

    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    request_id: int


@dataclass(slots=True, kw_only=True)
class ControlRequest:
    """Built from a ``ControlHeader``, which has the same fields."""

    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    request_id: int


@dataclass(slots=True, kw_only=True)
class LeaderAndIsrRequest(ControlRequest):
    partitions: tuple[PartitionAssignment, ...]


@dataclass(slots=True, kw_only=True)
class UpdateMetadataRequest(ControlRequest):
    """``live_brokers`` maps each live broker to its broker epoch, ``endpoints`` to what it registered."""

    live_brokers: dict[BrokerId, BrokerEpoch]
    endpoints: dict[BrokerId, BrokerEndpoint]
    partitions: tuple[PartitionAssignment, ...]


@dataclass(slots=True, kw_only=True)
class StopReplicaRequest(ControlRequest):
    partitions: tuple[TopicPartition, ...]
    delete: bool


PartitionErrors = dict[TopicPartition, ErrorCode]


@dataclass(slots=True, kw_only=True)
class ControlResponse:
    """``error`` is that of the whole request. Only failed partitions are listed."""

    request_id: int
    error: ErrorCode
    partition_errors: PartitionErrors = field(default_factory=dict)


# ---------------------------------------------------------------- brokers and administrators → controller


@dataclass(slots=True, kw_only=True)
class AlterIsrRequest:
    """A leader proposes a new ISR (KIP-497). ``member_epochs`` are the members' broker epochs known to the
    leader (KIP-903). ``number`` tells the answers of its proposals apart: a proposal that is repeated is
    answered twice, and the second answer says nothing about the next proposal, even of the same version."""

    tp: TopicPartition
    broker: BrokerId
    broker_epoch: BrokerEpoch
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    version: int
    member_epochs: tuple[BrokerEpoch, ...]
    number: int = 0
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(slots=True, kw_only=True)
class AlterIsrResponse:
    tp: TopicPartition
    error: ErrorCode
    leader_epoch: LeaderEpoch
    number: int
    isr: tuple[BrokerId, ...] = ()
    version: int = -1


@dataclass(slots=True, kw_only=True)
class RelieveReplicaRequest:
    """A broker cannot write to its log of a partition: the others should continue without it."""

    tp: TopicPartition
    broker: BrokerId
    broker_epoch: BrokerEpoch
    leader_epoch: LeaderEpoch


@dataclass(slots=True, kw_only=True)
class RelieveReplicaResponse:
    tp: TopicPartition
    error: ErrorCode


@dataclass(slots=True, kw_only=True)
class ControlledShutdownRequest:
    broker: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(slots=True, kw_only=True)
class ControlledShutdownResponse:
    error: ErrorCode
    remaining: tuple[TopicPartition, ...] = ()


class ElectionType(IntEnum):
    """The kinds of elections on request (KIP-460), numbered as on the wire."""

    PREFERRED = 0
    """Back to the first assigned replica, if it is alive and in sync."""
    UNCLEAN = 1
    """Any live replica of a partition without a leader, whatever the topic's settings: records may be
    lost."""


@dataclass(slots=True, kw_only=True)
class ElectLeadersRequest:
    tp: TopicPartition
    election: ElectionType = ElectionType.PREFERRED


@dataclass(slots=True, kw_only=True)
class ElectLeadersResponse:
    tp: TopicPartition
    error: ErrorCode


# ---------------------------------------------------------------- producers → any broker


@dataclass(slots=True, kw_only=True)
class InitProducerIdRequest:
    """A unique id for an idempotent producer."""


@dataclass(slots=True, kw_only=True)
class InitProducerIdResponse:
    error: ErrorCode
    producer_id: int = NO_PRODUCER
    producer_epoch: int = 0


# ---------------------------------------------------------------- majority election


@dataclass(slots=True, kw_only=True)
class VoteRequest(ControlRequest):
    """The controller asks a replica for its log end, and to ignore leaders before ``leader_epoch``."""

    tp: TopicPartition
    leader_epoch: LeaderEpoch


@dataclass(slots=True, kw_only=True)
class VoteResponse:
    request_id: int
    tp: TopicPartition
    error: ErrorCode
    leader_epoch: LeaderEpoch
    last_epoch: LeaderEpoch = NO_EPOCH
    end_offset: Offset = UNKNOWN_OFFSET


Message = (
    ProduceRequest
    | ProduceResponse
    | FetchRequest
    | FetchResponse
    | EpochEndRequest
    | EpochEndResponse
    | ListOffsetsRequest
    | ListOffsetsResponse
    | DeleteRecordsRequest
    | DeleteRecordsResponse
    | MetadataRequest
    | MetadataResponse
    | LeaderAndIsrRequest
    | UpdateMetadataRequest
    | StopReplicaRequest
    | ControlResponse
    | AlterIsrRequest
    | AlterIsrResponse
    | RelieveReplicaRequest
    | RelieveReplicaResponse
    | ControlledShutdownRequest
    | ControlledShutdownResponse
    | ElectLeadersRequest
    | ElectLeadersResponse
    | CreateTopicRequest
    | CreateTopicResponse
    | CreatePartitionsRequest
    | CreatePartitionsResponse
    | DeleteTopicRequest
    | DeleteTopicResponse
    | AlterReassignmentRequest
    | AlterReassignmentResponse
    | ListReassignmentsRequest
    | ListReassignmentsResponse
    | AlterBrokerConfigRequest
    | AlterBrokerConfigResponse
    | AlterTopicConfigRequest
    | AlterTopicConfigResponse
    | DescribeTopicConfigRequest
    | DescribeTopicConfigResponse
    | InitProducerIdRequest
    | InitProducerIdResponse
    | VoteRequest
    | VoteResponse
)
