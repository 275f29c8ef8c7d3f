"""What happened, in the past tense: the raw material of transcripts, evidence, invariants and metrics.

An event is an observation, never an input: no rule of the core reads one. Why something happened is a member
of a closed enumeration, with the facts beside it as fields; words are made of them elsewhere. The values of
the enumerations are written to evidence: once released, a value keeps its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tidelog.core.types import BrokerId, Epoch, Offset, PartitionState, TopicPartition
from tidelog.wire.errors import ErrorCode


class TruncationRule(StrEnum):
    """What made a follower cut its log."""

    OWN_HIGH_WATERMARK = "own_high_watermark"
    """It may keep what it knows to be committed (before KIP-101, or when no epoch is known)."""
    EPOCH_END_ON_LEADER = "epoch_end_on_leader"
    """Its epoch ends earlier on the leader (KIP-101)."""
    EPOCH_END_HERE = "epoch_end_here"
    """The leader's epoch ends earlier here, and later epochs are unknown to the leader (KIP-279)."""
    EPOCH_UNKNOWN = "epoch_unknown"
    """The epoch that the leader named is unknown here: back to an older one, then ask again (KIP-279)."""
    LEADER_LOG_SHORTER = "leader_log_shorter"
    """The leader's log ends before its own."""
    LEADER_LOG_STARTS_LATER = "leader_log_starts_later"
    """The leader's log starts after its own ends: it starts anew there."""


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


class StateWriteReason(StrEnum):
    """Why a partition's state was written to the keeper, if not because of an election."""

    CREATED = "created"
    REPLICA_OFFLINE = "replica_offline"
    ISR_ASKED = "isr_asked"
    """Its leader asked for another ISR."""
    ISR_WRITTEN = "isr_written"
    """Its leader wrote another ISR itself (before KIP-497)."""
    BALLOT_OPENED = "ballot_opened"
    """A majority is asked to vote; nobody leads meanwhile."""


class IsrChange(StrEnum):
    """Why a leader proposes another ISR: a follower lags by the `IsrRule` of the same name, or none does."""

    FETCH_TIME = "fetch_time"
    MESSAGE_LAG = "message_lag"
    CAUGHT_UP_TIME = "caught_up_time"
    CAUGHT_UP = "caught_up"
    """A follower has caught up."""


class ElectionFailure(StrEnum):
    NO_LIVE_REPLICA = "no_live_replica"
    """Of a new partition, no assigned replica is alive."""
    NO_ELECTABLE_REPLICA = "no_electable_replica"


class ResignReason(StrEnum):
    """How a controller learnt that it is none any more."""

    SESSION_EXPIRED = "session_expired"
    SUCCEEDED = "succeeded"
    """The keeper names another broker."""
    WRITE_REFUSED = "write_refused"


class StrayReason(StrEnum):
    NO_SUCH_PARTITION = "no_such_partition"
    LIVES_ELSEWHERE = "lives_elsewhere"


Reason = (
    TruncationRule
    | ElectionKind
    | StateWriteReason
    | IsrChange
    | ElectionFailure
    | ResignReason
    | StrayReason
)


@dataclass(slots=True)
class BecameLeader:
    broker: BrokerId
    tp: TopicPartition
    epoch: Epoch
    isr: tuple[BrokerId, ...]
    log_end_offset: Offset
    high_watermark: Offset
    """As it knew it when it still followed."""


@dataclass(slots=True)
class BecameFollower:
    broker: BrokerId
    tp: TopicPartition
    epoch: Epoch
    leader: BrokerId


@dataclass(slots=True)
class Truncated:
    broker: BrokerId
    tp: TopicPartition
    before: Offset
    after: Offset
    rule: TruncationRule
    epoch: Epoch | None = None
    """Of the rules of epochs: the epoch that the leader was asked about, or that it named."""
    epoch_end: Offset | None = None
    """Where that epoch ends, on the leader or here. A log that is cut within a batch ends before it."""
    own_epoch: Epoch | None = None
    """If that epoch is unknown here: the older one that was gone back to."""


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
    reason: IsrChange


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
    reason: StateWriteReason | ElectionKind
    absent: BrokerId | None = None
    """The broker that is offline or shutting down, where that is why."""


@dataclass(slots=True)
class ElectionFailed:
    controller: BrokerId
    tp: TopicPartition
    reason: ElectionFailure


@dataclass(slots=True)
class ControllerElected:
    broker: BrokerId
    controller_epoch: Epoch


@dataclass(slots=True)
class ControllerResigned:
    broker: BrokerId
    controller_epoch: Epoch
    reason: ResignReason
    successor: BrokerId | None = None
    """The broker that the keeper names."""


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
    """The log of a partition could not be written or read. The caller got an error; nothing was lost.
    ``reason`` is what the system said."""

    broker: BrokerId
    tp: TopicPartition
    reason: str


@dataclass(slots=True)
class ReplicaWentOffline:
    """A broker cannot use its log of a partition at all: others have to lead it. It is asked to try again.
    ``reason`` is what the system said."""

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
    reason: StrayReason
    replicas: tuple[BrokerId, ...] = ()
    """The brokers that the partition is assigned to, if it exists."""


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
