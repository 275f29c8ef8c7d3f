"""JoinGroup (11): join a consumer group, or rejoin it during a rebalance.

Behaviour: answered when the group has its next generation, which may take until the rebalance timeout.
Version 0 has no rebalance timeout, the session timeout is used for both; from 4 on a member without an id
gets one and must join again; from 7 on an answer may have no protocol.
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
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from tidelog.broker.node import Node

ID_FIRST_SINCE = 4
NULL_PROTOCOL_SINCE = 7


@serves(Api.JOIN_GROUP)
def handle(node: Node, request: Request) -> Steps[None]:
    body: JoinGroupRequest = request.body
    version = request.header.api_version
    protocols = yield from listed((protocol.name, protocol.metadata) for protocol in body.protocols)
    session_ms, rebalance_ms = body.session_timeout_ms, body.rebalance_timeout_ms
    question = groups.JoinRequest(
        group=body.group_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        client_id=request.header.client_id or "",
        client_host="/" + request.connection.peer.rpartition(":")[0],
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms if rebalance_ms < 0 else rebalance_ms,
        protocol_type=body.protocol_type,
        protocols=tuple(protocols),
        asks_for_id_first=version >= ID_FIRST_SINCE,
    )

    def deliver(response: groups.JoinResponse) -> None:
        nameless = None if version >= NULL_PROTOCOL_SINCE else ""
        request.respond(
            JoinGroupResponse(
                error_code=response.error,
                generation_id=response.generation,
                protocol_type=response.protocol_type,
                protocol_name=nameless if response.protocol is None else response.protocol,
                leader=response.leader,
                member_id=response.member_id,
                members=[
                    JoinGroupResponseMember(
                        member_id=member.member_id,
                        group_instance_id=member.instance_id,
                        metadata=member.metadata,
                    )
                    for member in response.members
                ],
            ),
            failed=response.error is not ErrorCode.NONE,
        )

    node.groups.ask(question, deliver)
