"""Events, in the past tense: the input of transcripts, evidence, invariants and metrics.

An event is an observation, never an input: no rule of the core reads one. Its reason is a member of a closed
enumeration (``reasons``), with the facts beside it as fields; ``narrate`` turns them into words.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.core.machine_phases import PartitionPhase, ReplicaPhase
from tidelog.core.reasons import (
    ElectionFailure,
    ElectionKind,
    IsrChange,
    LeadershipStart,
    ResignReason,
    StateWriteReason,
    StrayReason,
    TruncationRule,
    WatermarkMoment,
)
from tidelog.core.types import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionState,
    TopicPartition,
)
from tidelog.wire.errors import ErrorCode


@dataclass(slots=True)
class BecameLeader:
    broker: BrokerId
    tp: TopicPartition
    epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    log_end_offset: Offset
    high_watermark: Offset
    """As it knew it when it still followed."""
    start: LeadershipStart = LeadershipStart.TAKEN_UP


@dataclass(slots=True)
class BecameFollower:
    broker: BrokerId
    tp: TopicPartition
    epoch: LeaderEpoch
    leader: BrokerId


@dataclass(slots=True)
class Truncated:
    broker: BrokerId
    tp: TopicPartition
    before: Offset
    after: Offset
    rule: TruncationRule
    epoch: LeaderEpoch | None = None
    """For rules of epochs: the epoch that the follower asked about, or that the leader returned."""
    epoch_end: Offset | None = None
    """Where that epoch ends, on the leader or here. If that is inside a batch, the log is truncated before
    the batch."""
    own_epoch: LeaderEpoch | None = None
    """If that epoch is unknown here: the older epoch that was used instead."""


@dataclass(slots=True)
class HighWatermarkAdvanced:
    """On the leader: records below ``high_watermark`` are committed now."""

    broker: BrokerId
    tp: TopicPartition
    epoch: LeaderEpoch
    before: Offset
    high_watermark: Offset
    isr: tuple[BrokerId, ...]
    moment: WatermarkMoment


@dataclass(slots=True)
class HighWatermarksCheckpointed:
    """The broker wrote its high watermarks to disk: a restart begins with these. ``offsets`` are those that
    differ from what was on disk before."""

    broker: BrokerId
    offsets: dict[TopicPartition, Offset]

    @property
    def by_name(self) -> dict[str, str]:
        return {str(tp): str(offset) for tp, offset in self.offsets.items()}


@dataclass(slots=True)
class EpochEndAsked:
    """A follower asked its leader where a leader epoch ends (OffsetForLeaderEpoch)."""

    broker: BrokerId
    tp: TopicPartition
    leader: BrokerId
    epoch: LeaderEpoch


@dataclass(slots=True)
class EpochEndAnswered:
    """The leader's answer, as the follower received it."""

    broker: BrokerId
    tp: TopicPartition
    leader: BrokerId
    asked_epoch: LeaderEpoch
    epoch: LeaderEpoch
    """The latest epoch not after ``asked_epoch`` that the leader knows; -1 where answers do not name it
    (before KIP-279), or if there is none."""
    end_offset: Offset
    """Where that epoch ends on the leader, exclusive; -1: the leader knows no such epoch."""


@dataclass(slots=True)
class IsrChangeProposed:
    broker: BrokerId
    tp: TopicPartition
    epoch: LeaderEpoch
    before: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    reason: IsrChange


@dataclass(slots=True)
class IsrChangeRefused:
    broker: BrokerId
    tp: TopicPartition
    epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    error: ErrorCode


@dataclass(slots=True)
class IsrChanged:
    """The leader received the confirmation of its proposal."""

    broker: BrokerId
    tp: TopicPartition
    epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]


@dataclass(slots=True)
class PartitionStateWritten:
    """A new leader, epoch or ISR was written to the keeper. ``writer`` is the broker that wrote it."""

    writer: BrokerId
    tp: TopicPartition
    state: PartitionState
    reason: StateWriteReason | ElectionKind
    absent: BrokerId | None = None
    """The broker that is offline or shutting down, if that is the reason."""


@dataclass(slots=True)
class PartitionPhaseChanged:
    """Partitions went from one state of the controller's partition machine to another. The states that a new
    controller finds are loaded without an event."""

    controller: BrokerId
    tps: tuple[TopicPartition, ...]
    before: PartitionPhase
    after: PartitionPhase

    @property
    def names(self) -> list[str]:
        return list(map(str, self.tps))


@dataclass(slots=True)
class ReplicaPhaseChanged:
    """The same for the replicas of one broker, in the controller's replica machine."""

    controller: BrokerId
    replica: BrokerId
    tps: tuple[TopicPartition, ...]
    before: ReplicaPhase
    after: ReplicaPhase

    @property
    def names(self) -> list[str]:
        return list(map(str, self.tps))


@dataclass(slots=True)
class ElectionFailed:
    controller: BrokerId
    tp: TopicPartition
    reason: ElectionFailure


@dataclass(slots=True)
class ControllerElected:
    broker: BrokerId
    controller_epoch: ControllerEpoch


@dataclass(slots=True)
class ControllerResigned:
    broker: BrokerId
    controller_epoch: ControllerEpoch
    reason: ResignReason
    successor: BrokerId | None = None
    """The broker that the keeper names."""


@dataclass(slots=True)
class BrokerRegistered:
    broker: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(slots=True)
class ControlRequestRefused:
    broker: BrokerId
    request: str
    error: ErrorCode


@dataclass(slots=True)
class FollowerStalled:
    """A follower paused: it waits for its leader or for the controller."""

    broker: BrokerId
    tp: TopicPartition
    error: ErrorCode


@dataclass(slots=True)
class BrokerExited:
    """The broker stops rather than truncate the log of a partition: it is longer than the leader's, and the
    topic forbids unclean elections (until 2.0, KAFKA-7414). Leadership moves first, as in any shutdown."""

    broker: BrokerId
    tp: TopicPartition
    leader: BrokerId
    log_end_offset: Offset
    leader_end_offset: Offset


@dataclass(slots=True)
class StorageFailed:
    """The log of a partition could not be written or read. The caller got an error; nothing was lost.
    ``reason`` is the system's message."""

    broker: BrokerId
    tp: TopicPartition
    reason: str


@dataclass(slots=True)
class ReplicaWentOffline:
    """A broker cannot use its log of a partition: other replicas must lead. The controller will ask it again.
    ``reason`` is the system's message."""

    broker: BrokerId
    tp: TopicPartition
    reason: str


@dataclass(slots=True)
class ReplicaCameOnline:
    """A broker can use the log of an offline replica again."""

    broker: BrokerId
    tp: TopicPartition


@dataclass(slots=True)
class TopicConfigured:
    """A broker received a topic's settings. ``values`` are all that differ from its defaults, including those
    that only storage uses."""

    broker: BrokerId
    topic: str
    values: dict[str, str]


@dataclass(slots=True)
class TopicDeletionStarted:
    controller: BrokerId
    topic: str


@dataclass(slots=True)
class TopicDeleted:
    """All replicas and all nodes in the keeper are deleted: the name is free again."""

    controller: BrokerId
    topic: str


@dataclass(slots=True)
class ReassignmentStarted:
    """The controller began to move a partition. ``replicas`` are those of the target first, then those that
    will be removed."""

    controller: BrokerId
    tp: TopicPartition
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


@dataclass(slots=True)
class ReassignmentCompleted:
    """Every replica of the target is in sync: from here the others are removed."""

    controller: BrokerId
    tp: TopicPartition
    replicas: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    """The ISR that the controller read."""


@dataclass(slots=True)
class ReassignmentCancelled:
    """The partition keeps the replicas that it had before the move."""

    controller: BrokerId
    tp: TopicPartition
    replicas: tuple[BrokerId, ...]


@dataclass(slots=True)
class ReplicaDeleted:
    broker: BrokerId
    tp: TopicPartition


@dataclass(slots=True)
class StrayReplicaFound:
    """A broker has the log of a partition that does not exist, that is assigned elsewhere, or of an earlier
    topic of this name. The log is kept."""

    broker: BrokerId
    tp: TopicPartition
    reason: StrayReason
    replicas: tuple[BrokerId, ...] = ()
    """The brokers that the partition is assigned to, if it exists."""


Event = (
    BecameLeader
    | BecameFollower
    | Truncated
    | HighWatermarkAdvanced
    | HighWatermarksCheckpointed
    | EpochEndAsked
    | EpochEndAnswered
    | IsrChangeProposed
    | IsrChangeRefused
    | IsrChanged
    | PartitionStateWritten
    | PartitionPhaseChanged
    | ReplicaPhaseChanged
    | ElectionFailed
    | ControllerElected
    | ControllerResigned
    | BrokerRegistered
    | ControlRequestRefused
    | FollowerStalled
    | BrokerExited
    | StorageFailed
    | ReplicaWentOffline
    | ReplicaCameOnline
    | TopicConfigured
    | TopicDeletionStarted
    | TopicDeleted
    | ReassignmentStarted
    | ReassignmentCompleted
    | ReassignmentCancelled
    | ReplicaDeleted
    | StrayReplicaFound
)
