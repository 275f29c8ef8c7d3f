"""OffsetForLeaderEpoch (23): where an epoch ends in the leader's log (KIP-101, 279, 320).

Behaviour: the core answers from the leader-epoch cache. Followers send it before they fetch, consumers to
find out whether records they read were truncated.
Not done: nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import Gather
from tidelog.broker.connection import Request
from tidelog.core import messages as core
from tidelog.core.types import BrokerId, LeaderEpoch, TopicPartition
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.OFFSET_FOR_LEADER_EPOCH)
def handle(node: Node, request: Request) -> Steps[None]:
    body: OffsetForLeaderEpochRequest = request.body
    topics: list[OffsetForLeaderTopicResult] = []
    gather = Gather(lambda: request.respond(OffsetForLeaderEpochResponse(topics=topics)))
    for topic in body.topics:
        answer = OffsetForLeaderTopicResult(topic=topic.topic, partitions=[])
        topics.append(answer)
        yield
        for part in topic.partitions:
            place = EpochEndOffset(partition=part.partition)
            answer.partitions.append(place)
            question = core.EpochEndRequest(
                tp=TopicPartition(topic.topic, part.partition),
                replica=BrokerId(body.replica_id),
                current_leader_epoch=LeaderEpoch(part.current_leader_epoch),
                asked_epoch=LeaderEpoch(part.leader_epoch),
            )
            gather.ask(node, question, partial(_fill, place))
            yield
    gather.asked_all()


def _fill(place: EpochEndOffset, response: core.EpochEndResponse) -> None:
    place.error_code = response.error
    place.leader_epoch = response.epoch
    place.end_offset = response.end_offset
