"""CreatePartitions (37).

Behaviour: the controller adds partitions to a topic; existing ones, and the records in them, stay. Not to
``__consumer_offsets``: groups would be looked for in other partitions than those that hold them.
Versions: 0 to 3.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.connection import Request
from tidelog.broker.gather import Gather
from tidelog.core import messages as core
from tidelog.core.types import BrokerId
from tidelog.groups.records import TOPIC as OFFSETS_TOPIC
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node

GROUPS_WOULD_MOVE = "Where a group is kept depends on the number of partitions: it cannot change."


def handle(node: Node, request: Request) -> None:
    body: CreatePartitionsRequest = request.body
    results: list[CreatePartitionsTopicResult] = []
    gather = Gather(lambda: request.respond(CreatePartitionsResponse(results=results)))
    for topic in body.topics:
        result = CreatePartitionsTopicResult(name=topic.name)
        results.append(result)
        if topic.name == OFFSETS_TOPIC:
            result.error_code, result.error_message = ErrorCode.INVALID_PARTITIONS, GROUPS_WOULD_MOVE
            continue
        assignment = None
        if topic.assignments is not None:
            assignment = tuple(tuple(map(BrokerId, part.broker_ids)) for part in topic.assignments)

        def fill(
            response: core.CreatePartitionsResponse, result: CreatePartitionsTopicResult = result
        ) -> None:
            result.error_code, result.error_message = response.error, response.message

        question = core.CreatePartitionsRequest(topic.name, topic.count, assignment, body.validate_only)
        gather.ask(node, question, fill)
    gather.asked_all()
