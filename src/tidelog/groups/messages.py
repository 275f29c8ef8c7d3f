"""Requests to a coordinator and its responses: one class each.

Kafka's requests without their versions: where the behaviour depends on the version, the request has a field
for it. Treat instances as immutable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.core.types import NO_EPOCH, UNKNOWN_OFFSET, LeaderEpoch, Millis, Offset, TopicPartition
from tidelog.wire.errors import ErrorCode

NO_GENERATION = -1
NO_MEMBER = ""

ProtocolChoice = tuple[str, bytes]
"""The name of an assignor that a member supports, and the member's metadata for it."""

# ---------------------------------------------------------------- membership


@dataclass(slots=True, frozen=True)
class JoinRequest:
    group: str
    member_id: str
    instance_id: str | None
    """The instance id of a static member (KIP-345), which survives a restart."""
    client_id: str
    client_host: str
    session_timeout_ms: Millis
    rebalance_timeout_ms: Millis
    protocol_type: str
    protocols: tuple[ProtocolChoice, ...]
    """In the member's order of preference."""
    asks_for_id_first: bool = True
    """The client joins again with the member id it is given (KIP-394), so that abandoned joins leave no
    members."""


@dataclass(slots=True, frozen=True)
class JoinedMember:
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(slots=True, frozen=True)
class JoinResponse:
    error: ErrorCode
    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER
    members: tuple[JoinedMember, ...] = ()
    """Only for the leader, which assigns the partitions."""


@dataclass(slots=True, frozen=True)
class SyncRequest:
    group: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


@dataclass(slots=True, frozen=True)
class SyncResponse:
    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(slots=True, frozen=True)
class HeartbeatRequest:
    group: str
    generation: int
    member_id: str
    instance_id: str | None = None


@dataclass(slots=True, frozen=True)
class HeartbeatResponse:
    error: ErrorCode


@dataclass(slots=True, frozen=True)
class LeavingMember:
    member_id: str
    instance_id: str | None = None


@dataclass(slots=True, frozen=True)
class LeaveRequest:
    group: str
    members: tuple[LeavingMember, ...]


@dataclass(slots=True, frozen=True)
class LeaveResponse:
    error: ErrorCode
    members: tuple[ErrorCode, ...] = ()
    """One for each member of the request, in its order."""


# ---------------------------------------------------------------- committed offsets


@dataclass(slots=True, frozen=True)
class Position:
    """A committed offset of a group: the next record to read in a partition."""

    offset: Offset
    leader_epoch: LeaderEpoch = NO_EPOCH
    metadata: str = ""


NO_POSITION = Position(UNKNOWN_OFFSET)


@dataclass(slots=True, frozen=True)
class CommitRequest:
    group: str
    generation: int
    member_id: str
    instance_id: str | None
    positions: Mapping[TopicPartition, Position]


@dataclass(slots=True, frozen=True)
class CommitResponse:
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(slots=True, frozen=True)
class PositionsRequest:
    """Kafka's OffsetFetch. ``partitions`` None asks for all."""

    group: str
    partitions: tuple[TopicPartition, ...] | None


@dataclass(slots=True, frozen=True)
class PositionsResponse:
    error: ErrorCode
    positions: Mapping[TopicPartition, Position] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class ForgetRequest:
    """Kafka's OffsetDelete."""

    group: str
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True, frozen=True)
class ForgetResponse:
    error: ErrorCode
    errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


# ---------------------------------------------------------------- groups


@dataclass(slots=True, frozen=True)
class DescribeRequest:
    group: str


@dataclass(slots=True, frozen=True)
class DescribedMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(slots=True, frozen=True)
class DescribeResponse:
    error: ErrorCode
    group: str
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(slots=True, frozen=True)
class DeleteRequest:
    group: str


@dataclass(slots=True, frozen=True)
class DeleteResponse:
    error: ErrorCode


@dataclass(slots=True, frozen=True)
class ListedGroup:
    group: str
    protocol_type: str
    state: str


Request = (
    JoinRequest
    | SyncRequest
    | HeartbeatRequest
    | LeaveRequest
    | CommitRequest
    | PositionsRequest
    | ForgetRequest
    | DescribeRequest
    | DeleteRequest
)
Response = (
    JoinResponse
    | SyncResponse
    | HeartbeatResponse
    | LeaveResponse
    | CommitResponse
    | PositionsResponse
    | ForgetResponse
    | DescribeResponse
    | DeleteResponse
)


def refusal(request: Request, error: ErrorCode) -> Response:
    """The response to a request that fails as a whole."""
    match request:
        case JoinRequest():
            return JoinResponse(error, request.member_id)
        case SyncRequest():
            return SyncResponse(error)
        case HeartbeatRequest():
            return HeartbeatResponse(error)
        case LeaveRequest():
            return LeaveResponse(error)
        case CommitRequest():
            return CommitResponse(dict.fromkeys(request.positions, error))
        case PositionsRequest():
            return PositionsResponse(error)
        case ForgetRequest():
            return ForgetResponse(error)
        case DescribeRequest():
            return DescribeResponse(error, request.group)
        case DeleteRequest():
            return DeleteResponse(error)
