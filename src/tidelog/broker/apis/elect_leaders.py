"""ElectLeaders (43).

Behaviour: preferred elections give leadership back to the first assigned replica; unclean ones elect any live
replica of a partition without a leader, even if records are lost. Without a list: all partitions, and the
answer lists only those that changed or failed. An unknown kind of election is INVALID_REQUEST, for the
request and for each partition in it.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import Gather, deadline_seconds
from tidelog.broker.apis.named_partitions import named_partitions
from tidelog.broker.connection import Request
from tidelog.core import messages as core
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node

ELECTIONS = {election.value: election for election in core.ElectionType}


@serves(Api.ELECT_LEADERS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: ElectLeadersRequest = request.body
    if body.election_type not in ELECTIONS:
        _refuse_type(request, body)
        return
    if not node.core.controller.active:
        error = ErrorCode.NOT_CONTROLLER
        request.respond(ElectLeadersResponse(error_code=error, replica_election_results=[]), failed=True)
        return
    if body.topic_partitions is None:
        asked = list(node.core.metadata.states())
    else:
        asked = yield from named_partitions(
            (topic.topic, topic.partitions) for topic in body.topic_partitions
        )
    topics: dict[str, ReplicaElectionResult] = {}

    def fill(response: core.ElectLeadersResponse) -> None:
        if body.topic_partitions is None and response.error is ErrorCode.ELECTION_NOT_NEEDED:
            return
        name = response.tp.topic
        result = topics.setdefault(name, ReplicaElectionResult(topic=name, partition_result=[]))
        message = None if response.error is ErrorCode.NONE else response.error.name
        result.partition_result.append(
            PartitionResult(
                partition_id=response.tp.partition, error_code=response.error, error_message=message
            )
        )

    gather = Gather(
        lambda: request.respond(ElectLeadersResponse(replica_election_results=list(topics.values()))),
        seconds_max=deadline_seconds(body.timeout_ms),
    )
    for tp in asked:
        gather.ask(node, core.ElectLeadersRequest(tp=tp, election=ELECTIONS[body.election_type]), fill)
        yield
    gather.asked_all()


def _refuse_type(request: Request, body: ElectLeadersRequest) -> None:
    error, message = ErrorCode.INVALID_REQUEST, f"Unknown election type {body.election_type}"
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=partition, error_code=error, error_message=message)
                for partition in topic.partitions
            ],
        )
        for topic in body.topic_partitions or []
    ]
    request.respond(ElectLeadersResponse(error_code=error, replica_election_results=results), failed=True)
