"""What happened, in the past tense: the raw material of transcripts, evidence, invariants and metrics.

An event is an observation, never an input: no rule of the core reads one.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.core.types import BrokerId, Epoch, Offset, PartitionState, TopicPartition
from tidelog.wire.errors import ErrorCode


@dataclass(slots=True)
class BecameLeader:
    broker: BrokerId
    tp: TopicPartition
    epoch: Epoch
    isr: tuple[BrokerId, ...]
    log_end_offset: Offset


@dataclass(slots=True)
class BecameFollower:
    broker: BrokerId
    tp: TopicPartition
    epoch: Epoch
    leader: BrokerId


@dataclass(slots=True)
class Truncated:
    """``reason`` is the rule that fired, in words."""

    broker: BrokerId
    tp: TopicPartition
    before: Offset
    after: Offset
    reason: str


@dataclass(slots=True)
class HighWatermarkAdvanced:
    """On the leader: records below ``high_watermark`` are committed now."""

    broker: BrokerId
    tp: TopicPartition
    epoch: Epoch
    before: Offset
    high_watermark: Offset
    isr: tuple[BrokerId, ...]


@dataclass(slots=True)
class IsrChangeProposed:
    broker: BrokerId
    tp: TopicPartition
    epoch: Epoch
    before: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    reason: str


@dataclass(slots=True)
class IsrChangeRefused:
    broker: BrokerId
    tp: TopicPartition
    epoch: Epoch
    isr: tuple[BrokerId, ...]
    error: ErrorCode


@dataclass(slots=True)
class IsrChanged:
    """The leader learnt that its proposal was written."""

    broker: BrokerId
    tp: TopicPartition
    epoch: Epoch
    isr: tuple[BrokerId, ...]


@dataclass(slots=True)
class PartitionStateWritten:
    """The keeper took a new leader, epoch or ISR. ``writer`` is the broker that wrote it."""

    writer: BrokerId
    tp: TopicPartition
    state: PartitionState
    reason: str


@dataclass(slots=True)
class ElectionFailed:
    controller: BrokerId
    tp: TopicPartition
    reason: str


@dataclass(slots=True)
class ControllerElected:
    broker: BrokerId
    controller_epoch: Epoch


@dataclass(slots=True)
class ControllerResigned:
    broker: BrokerId
    controller_epoch: Epoch
    reason: str


@dataclass(slots=True)
class BrokerRegistered:
    broker: BrokerId
    broker_epoch: int


@dataclass(slots=True)
class ControlRequestRefused:
    broker: BrokerId
    request: str
    error: ErrorCode


@dataclass(slots=True)
class FollowerStalled:
    """A follower cannot go on by itself: it waits for its leader or for the controller."""

    broker: BrokerId
    tp: TopicPartition
    error: ErrorCode


@dataclass(slots=True)
class StorageFailed:
    """The log of a partition could not be written or read. Whoever asked was told so; nothing was lost."""

    broker: BrokerId
    tp: TopicPartition
    reason: str


@dataclass(slots=True)
class ReplicaWentOffline:
    """A broker cannot use its log of a partition at all: others have to lead it. It is asked to try again."""

    broker: BrokerId
    tp: TopicPartition
    reason: str


@dataclass(slots=True)
class ReplicaCameOnline:
    """The log that could not be used can be used again."""

    broker: BrokerId
    tp: TopicPartition


@dataclass(slots=True)
class TopicConfigured:
    """A broker learnt a topic's settings. ``values`` are those that differ from its defaults, all of them,
    also the ones that only storage obeys."""

    broker: BrokerId
    topic: str
    values: dict[str, str]


@dataclass(slots=True)
class TopicDeletionStarted:
    controller: BrokerId
    topic: str


@dataclass(slots=True)
class TopicDeleted:
    """Every replica is gone, and so is every trace in the keeper: the name is free again."""

    controller: BrokerId
    topic: str


@dataclass(slots=True)
class ReplicaDeleted:
    broker: BrokerId
    tp: TopicPartition


@dataclass(slots=True)
class StrayReplicaFound:
    """A broker has the log of a partition that does not exist, or that lives elsewhere now. It is left."""

    broker: BrokerId
    tp: TopicPartition
    reason: str


Event = (
    BecameLeader
    | BecameFollower
    | Truncated
    | HighWatermarkAdvanced
    | IsrChangeProposed
    | IsrChangeRefused
    | IsrChanged
    | PartitionStateWritten
    | ElectionFailed
    | ControllerElected
    | ControllerResigned
    | BrokerRegistered
    | ControlRequestRefused
    | FollowerStalled
    | StorageFailed
    | ReplicaWentOffline
    | ReplicaCameOnline
    | TopicConfigured
    | TopicDeletionStarted
    | TopicDeleted
    | ReplicaDeleted
    | StrayReplicaFound
)
