"""Heartbeat (12): a member keeps its session alive, and learns whether a rebalance is under way.

Behaviour: REBALANCE_IN_PROGRESS tells members to rejoin.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.connection import Request
from tidelog.groups import messages as groups
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.HEARTBEAT)
def handle(node: Node, request: Request) -> None:
    body: HeartbeatRequest = request.body

    def deliver(response: groups.HeartbeatResponse) -> None:
        error = response.error
        request.respond(HeartbeatResponse(error_code=error), failed=error is not ErrorCode.NONE)

    node.groups.ask(
        groups.HeartbeatRequest(body.group_id, body.generation_id, body.member_id, body.group_instance_id),
        deliver,
    )
