"""DeleteRecords (21).

Behaviour: the leader advances the start of its log. Answered when the live replicas have done the same, or
with REQUEST_TIMED_OUT. Offset -1 is the high watermark.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import Gather
from tidelog.broker.connection import Request
from tidelog.core import messages as core
from tidelog.core.types import TopicPartition
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.DELETE_RECORDS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: DeleteRecordsRequest = request.body
    topics: list[DeleteRecordsTopicResult] = []
    gather = Gather(lambda: request.respond(DeleteRecordsResponse(topics=topics)))
    for topic in body.topics:
        answer = DeleteRecordsTopicResult(name=topic.name, partitions=[])
        topics.append(answer)
        yield
        for part in topic.partitions:
            place = DeleteRecordsPartitionResult(partition_index=part.partition_index, low_watermark=-1)
            answer.partitions.append(place)

            def fill(
                response: core.DeleteRecordsResponse, place: DeleteRecordsPartitionResult = place
            ) -> None:
                place.error_code, place.low_watermark = response.error, response.low_watermark

            tp = TopicPartition(topic.name, part.partition_index)
            gather.ask(
                node, core.DeleteRecordsRequest(tp=tp, offset=part.offset, timeout_ms=body.timeout_ms), fill
            )
            yield
    gather.asked_all()
