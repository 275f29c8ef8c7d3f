"""DescribeGroups (15): the state and the members of consumer groups.

Behaviour: each group has its own error; an unknown group is ``Dead``, as in Kafka.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import Gather
from tidelog.broker.connection import Request
from tidelog.groups import messages as groups
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tidelog.wire.operations import ON_GROUP

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.DESCRIBE_GROUPS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: DescribeGroupsRequest = request.body
    found: dict[str, DescribedGroup] = {}

    def finish() -> None:
        if body.include_authorized_operations:
            for group in found.values():
                group.authorized_operations = ON_GROUP
        failed = any(group.error_code for group in found.values())
        request.respond(DescribeGroupsResponse(groups=list(found.values())), failed=failed)

    gather = Gather(finish)
    for name in dict.fromkeys(body.groups):
        node.groups.ask(groups.DescribeRequest(name), gather.expect(partial(_fill, found)))
        yield
    gather.asked_all()


def _fill(found: dict[str, DescribedGroup], response: groups.DescribeResponse) -> None:
    found[response.group] = DescribedGroup(
        error_code=response.error,
        group_id=response.group,
        group_state=response.state,
        protocol_type=response.protocol_type,
        protocol_data=response.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in response.members
        ],
    )
