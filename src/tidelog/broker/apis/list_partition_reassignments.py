"""ListPartitionReassignments (46, KIP-455).

Behaviour: the controller lists the moves that are under way, all or those of the partitions named. A
partition that does not move is left out.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import ask, deadline_seconds
from tidelog.broker.apis.named_partitions import named_partitions
from tidelog.broker.connection import Request
from tidelog.core import topic_messages
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.LIST_PARTITION_REASSIGNMENTS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: ListPartitionReassignmentsRequest = request.body
    tps = None
    if body.topics is not None:
        tps = yield from named_partitions((topic.name, topic.partition_indexes) for topic in body.topics)
    question = topic_messages.ListReassignmentsRequest(tps=None if tps is None else frozenset(tps))
    ask(
        node,
        question,
        lambda response: request.respond(_to_wire(response), failed=bool(response.error)),
        seconds_max=deadline_seconds(body.timeout_ms),
    )


def _to_wire(response: topic_messages.ListReassignmentsResponse) -> ListPartitionReassignmentsResponse:
    topics: dict[str, OngoingTopicReassignment] = {}
    for tp, (replicas, move) in response.moves.items():
        topic = topics.setdefault(tp.topic, OngoingTopicReassignment(name=tp.topic, partitions=[]))
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=tp.partition,
                replicas=list(replicas),
                adding_replicas=list(move.adding),
                removing_replicas=list(move.removing),
            )
        )
    return ListPartitionReassignmentsResponse(error_code=response.error, topics=list(topics.values()))
