"""Why something happened: the closed enumerations that events carry.

Their values are written to evidence: once released, a value keeps its meaning.
"""

from __future__ import annotations

from enum import StrEnum


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
    """An administrator deleted the controller's node in the keeper: the brokers elect again."""


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


class StrayReason(StrEnum):
    NO_SUCH_PARTITION = "no_such_partition"
    LIVES_ELSEWHERE = "lives_elsewhere"
    EARLIER_TOPIC = "earlier_topic"
    """It belongs to an earlier topic of the same name, and has been put aside."""


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
