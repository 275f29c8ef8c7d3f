"""OffsetDelete (47): delete a group's committed offsets of some partitions (KIP-496).

Behaviour: refused for topics that a member subscribes to. Answered when the tombstones are committed.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.connection import Request
from tidelog.core.types import TopicPartition
from tidelog.groups import messages as groups
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.OFFSET_DELETE)
def handle(node: Node, request: Request) -> Steps[None]:
    body: OffsetDeleteRequest = request.body
    errors: dict[TopicPartition, ErrorCode] = {}
    known: dict[TopicPartition, None] = {}
    for topic in body.topics:
        yield
        for part in topic.partitions:
            tp = TopicPartition(topic.name, part.partition_index)
            if tp in node.core.metadata:
                known[tp] = None
            else:
                errors[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            yield
    topics = body.topics

    def deliver(response: groups.ForgetResponse) -> None:
        if response.error is not ErrorCode.NONE:
            request.respond(OffsetDeleteResponse(error_code=response.error, topics=[]), failed=True)
            return
        errors.update(response.errors)
        request.respond_with(_answer(topics, errors))

    node.groups.ask(groups.ForgetRequest(body.group_id, tuple(known)), deliver)


def _answer(
    asked: list[OffsetDeleteRequestTopic], errors: dict[TopicPartition, ErrorCode]
) -> Steps[OffsetDeleteResponse]:
    topics: list[OffsetDeleteResponseTopic] = []
    for topic in asked:
        parts = yield from listed(
            OffsetDeleteResponsePartition(
                partition_index=part.partition_index,
                error_code=errors[TopicPartition(topic.name, part.partition_index)],
            )
            for part in topic.partitions
        )
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=parts))
        yield
    return OffsetDeleteResponse(topics=topics)
