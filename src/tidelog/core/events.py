"""Events, in the past tense: the input of transcripts, evidence, invariants and metrics.

An event is an observation, never an input: no rule of the core reads one. The reason of an event is a member
of a closed enumeration, with the facts beside it as fields; ``narrate`` turns them into words. The values of
the enumerations are written to evidence: once released, a value keeps its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tidelog.core.machine_phases import PartitionPhase, ReplicaPhase, StrayReason
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


class TruncationRule(StrEnum):
    """The rule by which a follower truncated its log."""

    OWN_HIGH_WATERMARK = "own_high_watermark"
    """Truncated to its high watermark (before KIP-101, or when no epoch is known)."""
    EPOCH_END_ON_LEADER = "epoch_end_on_leader"
    """Its epoch ends earlier on the leader (KIP-101)."""
    EPOCH_END_HERE = "epoch_end_here"
    """The leader's epoch ends earlier here, and later epochs are unknown to the leader (KIP-279)."""
    EPOCH_UNKNOWN = "epoch_unknown"
    """The epoch that the leader returned is unknown here: truncate to an older one, then ask again
    (KIP-279)."""
    LEADER_LOG_SHORTER = "leader_log_shorter"
    """The leader's log ends before the follower's."""
    LEADER_LOG_STARTS_LATER = "leader_log_starts_later"
    """The leader's log starts after the end of the follower's, which restarts there."""


class ElectionKind(StrEnum):
    """How a leader was chosen."""

    CLEAN = "clean"
    """The first live in-sync replica."""
    UNCLEAN = "unclean"
    """A live replica that is not in sync."""
    PREFERRED = "preferred"
    """The first assigned replica, on request."""
    MAJORITY = "majority"
    """The longest log of a majority."""
    CONTROLLED_SHUTDOWN = "controlled_shutdown"
    """An in-sync replica other than the broker that is shutting down."""
    REASSIGNED = "reassigned"
    """The first in-sync replica of the target of a reassignment, because the leader is to be removed."""
    ELIGIBLE = "eligible"
    """The first live eligible leader replica: no replica is in sync (KIP-966)."""
    LAST_KNOWN_LEADER = "last_known_leader"
    """The last leader, because no replica is in sync or eligible. It may have lost records (KIP-966)."""


class StateWriteReason(StrEnum):
    """Why a partition's state was written to the keeper, if not because of an election."""

    CREATED = "created"
    REPLICA_OFFLINE = "replica_offline"
    ISR_ASKED = "isr_asked"
    """The leader proposed an ISR change."""
    ISR_WRITTEN = "isr_written"
    """The leader changed the ISR itself (before KIP-497)."""
    UNCLEAN_SHUTDOWN = "unclean_shutdown"
    """A broker came back that had not been shut down cleanly: it is no longer in sync or eligible."""
    ELIGIBLE_CLEARED = "eligible_cleared"
    """min.insync.replicas changed: the eligible replicas were those of the old setting."""
    REASSIGNED = "reassigned"
    """The replicas of the partition change (KIP-455)."""
    BALLOT_OPENED = "ballot_opened"
    """The controller asks for votes; there is no leader meanwhile."""


class IsrChange(StrEnum):
    """Why a leader proposes an ISR change: a follower lags by the `IsrRule` of the same name, or has caught
    up."""

    FETCH_TIME = "fetch_time"
    MESSAGE_LAG = "message_lag"
    CAUGHT_UP_TIME = "caught_up_time"
    CAUGHT_UP = "caught_up"
    """A follower has caught up."""


class ElectionFailure(StrEnum):
    NO_LIVE_REPLICA = "no_live_replica"
    """No assigned replica of a new partition is alive."""
    NO_ELECTABLE_REPLICA = "no_electable_replica"


class ResignReason(StrEnum):
    """How a controller learnt that it was deposed."""

    SESSION_EXPIRED = "session_expired"
    SUCCEEDED = "succeeded"
    """The keeper names another broker."""
    WRITE_REFUSED = "write_refused"
    NODE_DELETED = "node_deleted"
    """An administrator deleted the controller's node in the keeper: there is an election anew."""


class LeadershipStart(StrEnum):
    """How a replica came to lead in an epoch."""

    TAKEN_UP = "taken_up"
    """It did not lead before."""
    CONTINUED = "continued"
    """It led in the epoch before: only the epoch is new, because a replica left or came."""


class WatermarkMoment(StrEnum):
    """The moment at which a leader raised its high watermark."""

    LEADERSHIP_BEGAN = "leadership_began"
    """The replica became leader."""
    REPLICA_LEFT_ISR = "replica_left_isr"
    """The controller removed a failed replica from the ISR, or the leader a slow one."""
    RECORDS_APPENDED = "records_appended"
    """A producer's records were appended: at once only where no other replica must have them."""
    FOLLOWER_FETCHED = "follower_fetched"
    """A follower's fetch showed that it has more records."""
    ISR_GREW = "isr_grew"
    """Enough replicas are in sync again: under ``elr`` the high watermark waits for that."""
    ISR_CHECKED = "isr_checked"
    """The periodic check: a follower outside the ISR has been silent for too long to be waited for."""


Reason = (
    TruncationRule
    | ElectionKind
    | StateWriteReason
    | IsrChange
    | ElectionFailure
    | ResignReason
    | StrayReason
    | WatermarkMoment
    | LeadershipStart
)


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
    """A broker has the log of a partition that does not exist, or that is assigned elsewhere. The log is
    kept."""

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
