"""LeaveGroup (13): remove members before their sessions expire.

Behaviour: each member has its own error; static members may be named by their instance id alone. Up to
version 2 there is one member, and its error is that of the request.
Not done: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.connection import Request
from tidelog.groups import messages as groups
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node

SEVERAL_SINCE = 3


@serves(Api.LEAVE_GROUP)
def handle(node: Node, request: Request) -> Steps[None]:
    body: LeaveGroupRequest = request.body
    several = request.header.api_version >= SEVERAL_SINCE
    leaving = [groups.LeavingMember(body.member_id)]
    if several:
        named = ((each.member_id, each.group_instance_id) for each in body.members)
        leaving = yield from listed(groups.LeavingMember(*member) for member in named)

    def deliver(response: groups.LeaveResponse) -> None:
        error = response.error
        if not several and response.members:
            error = response.members[0]
        failed = error is not ErrorCode.NONE or any(response.members)
        request.respond_with(_answer(error, leaving, response.members), failed=failed)

    node.groups.ask(groups.LeaveRequest(body.group_id, tuple(leaving)), deliver)


def _answer(
    error: ErrorCode, leaving: Sequence[groups.LeavingMember], errors: Sequence[ErrorCode]
) -> Steps[LeaveGroupResponse]:
    """Without members if the whole request is refused."""
    members = yield from listed(
        MemberResponse(member_id=member.member_id, group_instance_id=member.instance_id, error_code=of_member)
        for member, of_member in zip(leaving, errors, strict=False)
    )
    return LeaveGroupResponse(error_code=error, members=members)
