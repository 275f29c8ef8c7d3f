"""FindCoordinator (10): which broker looks after a consumer group.

Behaviour: the leader of the group's partition of ``__consumer_offsets``. The first question ever has the
controller create that topic, and is answered when it is there: clients that are told to ask again wait a
second before they do. If that takes long, and while the partition has no leader, the answer is
COORDINATOR_NOT_AVAILABLE all the same.
Versions: 0 to 3.
Not done: transactions; nobody may use a transactional id (TRANSACTIONAL_ID_AUTHORIZATION_FAILED).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.connection import Request
from tidelog.groups.records import TOPIC
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node

GROUP, TRANSACTION = 0, 1


def handle(node: Node, request: Request) -> None:
    body: FindCoordinatorRequest = request.body
    if body.key_type == TRANSACTION:
        # The one error that every client takes for final: after others some ask again for a minute.
        _refuse(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served")
    elif body.key_type != GROUP:
        _refuse(request, ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {body.key_type}")
    elif node.groups.partition(body.key) is None:
        node.create_topic(TOPIC)
        node.groups.wait_for(
            lambda: node.groups.whereabouts(body.key) is not None, lambda: _answer(node, request, body.key)
        )
    else:
        _answer(node, request, body.key)


def _answer(node: Node, request: Request, group: str) -> None:
    found = node.groups.whereabouts(group)
    if found is None:
        _refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group has no coordinator yet; ask again")
    else:
        broker, at = found
        request.respond(FindCoordinatorResponse(node_id=broker, host=at.host, port=at.port))


def _refuse(request: Request, error: ErrorCode, message: str) -> None:
    request.respond(
        FindCoordinatorResponse(error_code=error, error_message=message, node_id=-1, host="", port=-1),
        failed=True,
    )
