"""CreatePartitions (37).

Behaviour: the controller adds partitions to a topic; existing ones, and the records in them, stay.
``__consumer_offsets`` is refused, because the partition of a group depends on their number. A topic named
twice in a request is refused both times. A request that adds more than 10,000 partitions in all is refused as
a whole (POLICY_VIOLATION).
Not done: nothing.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import Gather, deadline_seconds
from tidelog.broker.connection import Request
from tidelog.broker.error_messages import brief
from tidelog.core import topic_messages
from tidelog.core.controller.topic_creation import (
    PARTITIONS_PER_REQUEST_MAX,
    TOO_MANY_PARTITIONS,
    TopicRefused,
)
from tidelog.core.types import BrokerId
from tidelog.groups.records import TOPIC as OFFSETS_TOPIC
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node

GROUPS_WOULD_MOVE = TopicRefused(
    ErrorCode.INVALID_PARTITIONS,
    "Where a group is kept depends on the number of partitions: it cannot change.",
)
NAMED_TWICE = TopicRefused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


@serves(Api.CREATE_PARTITIONS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: CreatePartitionsRequest = request.body
    named: Counter[str] = Counter()
    added = 0
    for topic in body.topics:
        named[topic.name] += 1
        added += _added(node, topic)
        yield
    too_many = added > PARTITIONS_PER_REQUEST_MAX
    results: dict[str, CreatePartitionsTopicResult] = {}
    gather = Gather(
        lambda: request.respond(CreatePartitionsResponse(results=list(results.values()))),
        seconds_max=deadline_seconds(body.timeout_ms),
    )
    for topic in body.topics:
        result = results.setdefault(topic.name, CreatePartitionsTopicResult(name=topic.name))
        if too_many:
            _fill(result, TOO_MANY_PARTITIONS)
        elif named[topic.name] > 1:
            _fill(result, NAMED_TWICE)
        elif topic.name == OFFSETS_TOPIC:
            _fill(result, GROUPS_WOULD_MOVE)
        else:
            gather.ask(node, _question(topic, validate_only=body.validate_only), partial(_answered, result))
        yield
    gather.asked_all()


def _added(node: Node, topic: CreatePartitionsTopic) -> int:
    """According to this broker's metadata; the controller checks again. At least 1, because every topic is
    work."""
    known = node.core.metadata.topics.get(topic.name)
    named = len(topic.assignments or ())
    return max(named, 1) if known is None else max(topic.count - len(known), named, 1)


def _question(topic: CreatePartitionsTopic, *, validate_only: bool) -> topic_messages.CreatePartitionsRequest:
    assignment = None
    if topic.assignments is not None:
        assignment = tuple(tuple(map(BrokerId, part.broker_ids)) for part in topic.assignments)
    return topic_messages.CreatePartitionsRequest(
        topic=topic.name, count=topic.count, assignment=assignment, validate_only=validate_only
    )


def _answered(result: CreatePartitionsTopicResult, response: topic_messages.CreatePartitionsResponse) -> None:
    result.error_code, result.error_message = response.error, brief(response.message)


def _fill(result: CreatePartitionsTopicResult, refusal: TopicRefused) -> None:
    result.error_code, result.error_message = refusal
