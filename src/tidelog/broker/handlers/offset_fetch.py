"""OffsetFetch (9): the positions a consumer group has written down.

Behaviour: a group or a partition that nobody knows has no position, which is -1 and no error.
Versions: 1 to 7; since 2 null asks for everything and an error is that of the request.
Not done: ``require_stable`` makes no difference, because there are no transactions; several groups at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.connection import Request
from tidelog.broker.inter_broker import by_topic
from tidelog.core.types import TopicPartition
from tidelog.groups import messages as groups
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node

ONE_ERROR_SINCE = 2


def handle(node: Node, request: Request) -> None:
    body: OffsetFetchRequest = request.body
    asked = None
    if body.topics is not None:
        asked = tuple(
            TopicPartition(topic.name, number) for topic in body.topics for number in topic.partition_indexes
        )

    def deliver(response: groups.PositionsResponse) -> None:
        error = response.error
        positions = response.positions
        if error is not ErrorCode.NONE and request.header.api_version < ONE_ERROR_SINCE:
            positions = dict.fromkeys(asked or (), groups.NO_POSITION)
        parts = by_topic((tp, _part(tp, position, error)) for tp, position in positions.items())
        topics = [OffsetFetchResponseTopic(name=name, partitions=part) for name, part in parts.items()]
        failed = error is not ErrorCode.NONE
        request.respond(OffsetFetchResponse(topics=topics, error_code=error), failed=failed)

    node.groups.ask(groups.PositionsRequest(body.group_id, asked), deliver)


def _part(tp: TopicPartition, position: groups.Position, error: ErrorCode) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=tp.partition,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        metadata=position.metadata,
        error_code=error,
    )
