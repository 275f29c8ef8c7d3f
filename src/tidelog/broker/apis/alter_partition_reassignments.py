"""AlterPartitionReassignments (45, KIP-455).

Behaviour: the controller begins to move each partition to the replicas named, or cancels its move (null). The
answer comes when the moves have begun. A partition named twice in a request is refused both times.
Not done: throttles. `leader.replication.throttled.rate` and its kin are not obeyed.
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
from tidelog.core.types import BrokerId, TopicPartition
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.ALTER_PARTITION_REASSIGNMENTS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: AlterPartitionReassignmentsRequest = request.body
    if not node.core.controller.active:
        answer = AlterPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER, responses=[])
        request.respond(answer, failed=True)
        return
    named: Counter[TopicPartition] = Counter()
    for topic in body.topics:
        named.update(TopicPartition(topic.name, part.partition_index) for part in topic.partitions)
        yield
    responses: list[ReassignableTopicResponse] = []
    gather = Gather(
        lambda: request.respond(AlterPartitionReassignmentsResponse(responses=responses)),
        seconds_max=deadline_seconds(body.timeout_ms),
    )
    for topic in body.topics:
        results: list[ReassignablePartitionResponse] = []
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=results))
        for part in topic.partitions:
            result = ReassignablePartitionResponse(partition_index=part.partition_index)
            results.append(result)
            tp = TopicPartition(topic.name, part.partition_index)
            if named[tp] > 1:
                result.error_code = ErrorCode.INVALID_REQUEST
                result.error_message = "The partition is named twice in this request."
            else:
                replicas = None if part.replicas is None else tuple(map(BrokerId, part.replicas))
                question = topic_messages.AlterReassignmentRequest(tp=tp, replicas=replicas)
                gather.ask(node, question, partial(_answered, result))
            yield
    gather.asked_all()


def _answered(
    result: ReassignablePartitionResponse, response: topic_messages.AlterReassignmentResponse
) -> None:
    result.error_code, result.error_message = response.error, brief(response.message)
