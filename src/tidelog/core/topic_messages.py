"""Messages of administrators about topics: created, grown, deleted, moved, configured. And brokers' settings.

Changes go to the controller; settings are read and changed through any broker. The rules of ``messages`` hold
here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from tidelog.core.assignments import Assignment, Reassignment
from tidelog.core.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from tidelog.wire.errors import ErrorCode

BROKER_DEFAULT = -1
"""Use the broker's default number of partitions or replicas."""


@dataclass(slots=True, kw_only=True)
class CreateTopicRequest:
    """Either two numbers or an assignment (then both numbers are ``BROKER_DEFAULT``). The caller has
    validated the values of ``config``."""

    topic: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignment: Assignment | None = None
    config: dict[str, str] = field(default_factory=dict)
    validate_only: bool = False


@dataclass(slots=True, kw_only=True)
class CreateTopicResponse:
    topic: str
    error: ErrorCode
    message: str | None = None
    partitions: int = -1
    replication_factor: int = -1
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(slots=True, kw_only=True)
class CreatePartitionsRequest:
    """``count`` is the number of partitions afterwards; ``assignment`` lists the replicas of the new
    partitions only, in order."""

    topic: str
    count: int
    assignment: tuple[tuple[BrokerId, ...], ...] | None = None
    validate_only: bool = False


@dataclass(slots=True, kw_only=True)
class CreatePartitionsResponse:
    topic: str
    error: ErrorCode
    message: str | None = None


@dataclass(slots=True, kw_only=True)
class DeleteTopicRequest:
    """With an id only the topic that has it is deleted, not a later one of the same name."""

    topic: str
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(slots=True, kw_only=True)
class DeleteTopicResponse:
    """Sent when the topic is marked for deletion; brokers delete its logs after that."""

    topic: str
    error: ErrorCode
    message: str | None = None


@dataclass(slots=True, kw_only=True)
class AlterReassignmentRequest:
    tp: TopicPartition
    replicas: tuple[BrokerId, ...] | None
    """Where to move it (KIP-455); None cancels the move that is under way."""


@dataclass(slots=True, kw_only=True)
class AlterReassignmentResponse:
    tp: TopicPartition
    error: ErrorCode
    message: str | None = None


@dataclass(slots=True, kw_only=True)
class ListReassignmentsRequest:
    tps: Collection[TopicPartition] | None = None
    """None: every partition that is being moved."""


@dataclass(slots=True, kw_only=True)
class ListReassignmentsResponse:
    error: ErrorCode
    moves: dict[TopicPartition, tuple[tuple[BrokerId, ...], Reassignment]] = field(default_factory=dict)


# ---------------------------------------------------------------- settings, through any broker


@dataclass(slots=True, kw_only=True)
class AlterTopicConfigRequest:
    """Change single settings (None: back to the default), or with ``replace`` all of them at once."""

    topic: str
    values: dict[str, str | None]
    replace: bool = False


@dataclass(slots=True, kw_only=True)
class AlterTopicConfigResponse:
    topic: str
    error: ErrorCode
    message: str | None = None


@dataclass(slots=True, kw_only=True)
class DescribeTopicConfigRequest:
    """Asks for the settings of a topic that differ from the brokers' defaults, as the keeper holds them."""

    topic: str


@dataclass(slots=True, kw_only=True)
class DescribeTopicConfigResponse:
    topic: str
    error: ErrorCode
    values: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class AlterBrokerConfigRequest:
    """Change settings as in ``AlterTopicConfigRequest``. The caller has validated the values."""

    scope: str
    """A broker's number, or ``keeper_paths.EVERY_BROKER``."""
    values: dict[str, str | None]
    replace: bool = False


@dataclass(slots=True, kw_only=True)
class AlterBrokerConfigResponse:
    error: ErrorCode
    message: str | None = None
