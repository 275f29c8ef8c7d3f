"""OffsetDelete (47): forget a group's positions in some partitions (KIP-496).

Behaviour: positions in topics that a member subscribes to are refused. Answered when the tombstones are
committed.
Versions: 0.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.connection import Request
from tidelog.core.types import TopicPartition
from tidelog.groups import messages as groups
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node


def handle(node: Node, request: Request) -> None:
    body: OffsetDeleteRequest = request.body
    asked = [(topic.name, [part.partition_index for part in topic.partitions]) for topic in body.topics]
    named = dict.fromkeys(TopicPartition(name, number) for name, numbers in asked for number in numbers)
    errors = {tp: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for tp in named if tp not in node.core.metadata}

    def deliver(response: groups.ForgetResponse) -> None:
        failed = response.error is not ErrorCode.NONE
        errors.update(response.errors)
        topics = [
            OffsetDeleteResponseTopic(
                name=name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=number, error_code=errors[TopicPartition(name, number)]
                    )
                    for number in numbers
                ],
            )
            for name, numbers in ([] if failed else asked)
        ]
        request.respond(OffsetDeleteResponse(error_code=response.error, topics=topics), failed=failed)

    known = tuple(tp for tp in named if tp not in errors)
    node.groups.ask(groups.ForgetRequest(body.group_id, known), deliver)
