"""Events of a scenario's clients: sends, acknowledgements, failures, reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from tidelog.core.types import NO_LEADER, UNKNOWN_OFFSET, LeaderEpoch, Millis, Offset, TopicPartition
from tidelog.wire.errors import ErrorCode


class Outcome(Enum):
    OK = "ok"
    FAILED = "failed"
    """Refused: it is certain that no copy was written."""
    UNKNOWN = "unknown"
    """An error or silence after which a copy may exist."""


class ClientFailure(StrEnum):
    """Why a client gave up without an error from a broker. Values are written to evidence."""

    NO_ANSWER = "no answer in time"
    CONNECTION_LOST = "connection lost"
    DELIVERY_TIMED_OUT = "delivery timed out"
    NO_LEADER = "no reachable leader"


ClientError = ErrorCode | ClientFailure


@dataclass(slots=True)
class Sent:
    """One record a producer was asked to send: an entry of the ledger."""

    producer: str
    tp: TopicPartition
    value: str
    acks: int
    outcome: Outcome | None = None
    error: ClientError | None = None
    offset: Offset = UNKNOWN_OFFSET
    base_offset: Offset = UNKNOWN_OFFSET
    """In the last answer that was an error: where the leader has appended the batch, if it has."""
    attempts: int = 0
    in_doubt: bool = False
    deadline: Millis = 0
    sequence: int = -1
    broker: int = NO_LEADER
    """Who gave the final answer."""
    rest: tuple[Sent, ...] = ()
    """The records behind it in the same batch, which share its fate."""
    aimed_at: int | None = None
    """The broker it goes to in any case; None: to the leader that the producer believes in."""


@dataclass(slots=True)
class Acknowledged:
    record: Sent


@dataclass(slots=True)
class SendFailed:
    record: Sent


@dataclass(slots=True)
class RecordRead:
    consumer: str
    tp: TopicPartition
    offset: Offset
    value: str
    epoch: LeaderEpoch


ClientEvent = Acknowledged | SendFailed | RecordRead
