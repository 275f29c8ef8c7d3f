"""SyncGroup (14): the group's leader sends the assignment, every member receives its own part.

Behaviour: answered when the assignment is committed to the group's partition of ``__consumer_offsets``. From
version 5 on the member names the protocol that it expects, and is refused if that is wrong.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.connection import Request
from tidelog.groups import messages as groups
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


NAMES_PROTOCOL_SINCE = 5


@serves(Api.SYNC_GROUP)
def handle(node: Node, request: Request) -> Steps[None]:
    body: SyncGroupRequest = request.body
    nameless = body.protocol_type is None or body.protocol_name is None
    if nameless and request.header.api_version >= NAMES_PROTOCOL_SINCE:
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        request.respond(SyncGroupResponse(error_code=error, assignment=b""), failed=True)
        return
    assignments = yield from listed((each.member_id, each.assignment) for each in body.assignments)
    question = groups.SyncRequest(
        group=body.group_id,
        generation=body.generation_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        protocol_type=body.protocol_type,
        protocol=body.protocol_name,
        assignments=dict(assignments),
    )

    def deliver(response: groups.SyncResponse) -> None:
        request.respond(
            SyncGroupResponse(
                error_code=response.error,
                protocol_type=response.protocol_type,
                protocol_name=response.protocol,
                assignment=response.assignment,
            ),
            failed=response.error is not ErrorCode.NONE,
        )

    node.groups.ask(question, deliver)
