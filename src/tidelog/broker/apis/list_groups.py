"""ListGroups (16): the groups that this broker coordinates; a client asks every broker to get all.

Behaviour: COORDINATOR_LOAD_IN_PROGRESS while a partition is being loaded, because its groups would be
missing. Version 4 may ask for groups in certain states only.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.connection import Request
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.LIST_GROUPS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: ListGroupsRequest = request.body
    known = node.groups.groups()
    if known is None:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        request.respond(ListGroupsResponse(error_code=error, groups=[]), failed=True)
        return
    states = frozenset(body.states_filter)
    found = yield from listed(
        ListedGroup(group_id=group.group, protocol_type=group.protocol_type, group_state=group.state)
        for group in known
        if not states or group.state in states
    )
    request.respond(ListGroupsResponse(groups=found))
