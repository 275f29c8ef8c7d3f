"""OffsetFetch (9): the positions consumer groups have written down.

Behaviour: a group or a partition that nobody knows has no position, which is -1 and no error.
Versions: 1 to 8. In 1 each partition has the error; since 2 null asks for everything, and the error is the
request's; since 8 several groups are asked for, each of which has an error of its own (KIP-709).
Not done: ``require_stable`` makes no difference, because there are no transactions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.connection import Request
from tidelog.broker.gather import Gather
from tidelog.broker.inter_broker import by_topic
from tidelog.core.types import TopicPartition
from tidelog.groups import messages as groups
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node

ONE_ERROR_SINCE = 2
SEVERAL_SINCE = 8


def handle(node: Node, request: Request) -> None:
    body: OffsetFetchRequest = request.body
    asked = body.groups
    if request.header.api_version < SEVERAL_SINCE:
        asked = [OffsetFetchRequestGroup(group_id=body.group_id, topics=body.topics)]
    answers = [OffsetFetchResponseGroup(group_id=group.group_id, topics=[]) for group in asked]
    gather = Gather(lambda: _respond(request, answers))
    for group, answer in zip(asked, answers, strict=True):
        question = groups.PositionsRequest(group.group_id, _partitions(group))
        fill = partial(_fill, answer, question.partitions, request.header.api_version)
        node.groups.ask(question, gather.expect(fill))
    gather.asked_all()


def _partitions(group: OffsetFetchRequestGroup) -> tuple[TopicPartition, ...] | None:
    if group.topics is None:
        return None
    return tuple(
        TopicPartition(topic.name, number) for topic in group.topics for number in topic.partition_indexes
    )


def _fill(
    answer: OffsetFetchResponseGroup,
    asked: tuple[TopicPartition, ...] | None,
    version: int,
    response: groups.PositionsResponse,
) -> None:
    answer.error_code, positions = response.error, response.positions
    if response.error is not ErrorCode.NONE and version < ONE_ERROR_SINCE:
        positions = dict.fromkeys(asked or (), groups.NO_POSITION)
    parts = by_topic((tp, _part(tp, position, response.error)) for tp, position in positions.items())
    answer.topics = [OffsetFetchResponseTopic(name=name, partitions=part) for name, part in parts.items()]


def _part(tp: TopicPartition, position: groups.Position, error: ErrorCode) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=tp.partition,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        metadata=position.metadata,
        error_code=error,
    )


def _respond(request: Request, answers: list[OffsetFetchResponseGroup]) -> None:
    failed = any(answer.error_code for answer in answers)
    if request.header.api_version >= SEVERAL_SINCE:
        request.respond(OffsetFetchResponse(groups=answers), failed=failed)
        return
    (only,) = answers
    request.respond(OffsetFetchResponse(topics=only.topics, error_code=only.error_code), failed=failed)
