"""OffsetCommit (8): store the committed offsets of a consumer group.

Behaviour: answered when the offsets are committed to the group's partition of ``__consumer_offsets``, like a
produce with acks=all. Unknown partitions are refused, the others of the request are stored. The retention
time of versions 2 to 4 has no effect: offsets are kept for ``offsets.retention.minutes``.
Not done: versions 0 and 1, which store offsets in ZooKeeper or without generations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.connection import Request
from tidelog.core.types import LeaderEpoch, TopicPartition
from tidelog.groups import messages as groups
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.OFFSET_COMMIT)
def handle(node: Node, request: Request) -> Steps[None]:
    body: OffsetCommitRequest = request.body
    errors: dict[TopicPartition, ErrorCode] = {}
    positions: dict[TopicPartition, groups.Position] = {}
    for topic in body.topics:
        yield
        for part in topic.partitions:
            tp = TopicPartition(topic.name, part.partition_index)
            if tp in node.core.metadata:
                epoch, text = LeaderEpoch(part.committed_leader_epoch), part.committed_metadata or ""
                positions[tp] = groups.Position(part.committed_offset, epoch, text)
            else:
                errors[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            yield
    topics = body.topics

    def deliver(response: groups.CommitResponse) -> None:
        errors.update(response.errors)
        request.respond_with(_answer(topics, errors), failed=any(errors.values()))

    if not positions:
        deliver(groups.CommitResponse({}))
        return
    node.groups.ask(
        groups.CommitRequest(
            body.group_id,
            body.generation_id_or_member_epoch,
            body.member_id,
            body.group_instance_id,
            positions,
        ),
        deliver,
    )


def _answer(
    asked: list[OffsetCommitRequestTopic], errors: dict[TopicPartition, ErrorCode]
) -> Steps[OffsetCommitResponse]:
    topics: list[OffsetCommitResponseTopic] = []
    for topic in asked:
        parts = yield from listed(
            OffsetCommitResponsePartition(
                partition_index=part.partition_index,
                error_code=errors[TopicPartition(topic.name, part.partition_index)],
            )
            for part in topic.partitions
        )
        topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=parts))
        yield
    return OffsetCommitResponse(topics=topics)
