"""LeaveGroup (13): members go, without waiting for their sessions to expire.

Behaviour: each member is answered for itself; static ones may be named by their instance id alone.
Versions: 0 to 4; up to 2 it is one member, whose error is that of the request.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.connection import Request
from tidelog.groups import messages as groups
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node

SEVERAL_SINCE = 3


def handle(node: Node, request: Request) -> None:
    body: LeaveGroupRequest = request.body
    several = request.header.api_version >= SEVERAL_SINCE
    if several:
        leaving = tuple(groups.LeavingMember(each.member_id, each.group_instance_id) for each in body.members)
    else:
        leaving = (groups.LeavingMember(body.member_id),)

    def deliver(response: groups.LeaveResponse) -> None:
        error = response.error
        if not several and response.members:
            error = response.members[0]
        members = [
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=of_member
            )
            for member, of_member in zip(leaving, response.members, strict=False)  # none if all is refused
        ]
        failed = error is not ErrorCode.NONE or any(response.members)
        request.respond(LeaveGroupResponse(error_code=error, members=members), failed=failed)

    node.groups.ask(groups.LeaveRequest(body.group_id, leaving), deliver)
