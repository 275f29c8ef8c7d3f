"""DeleteGroups (42): delete consumer groups without members, and their offsets.

Behaviour: each group has its own error. Answered when the tombstones are committed.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import Gather
from tidelog.broker.connection import Request
from tidelog.groups import messages as groups
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.DELETE_GROUPS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: DeleteGroupsRequest = request.body
    results: list[DeletableGroupResult] = []

    def finish() -> None:
        failed = any(result.error_code for result in results)
        request.respond(DeleteGroupsResponse(results=results), failed=failed)

    gather = Gather(finish)
    for name in dict.fromkeys(body.groups_names):
        result = DeletableGroupResult(group_id=name)
        results.append(result)

        def fill(response: groups.DeleteResponse, result: DeletableGroupResult = result) -> None:
            result.error_code = response.error

        node.groups.ask(groups.DeleteRequest(name), gather.expect(fill))
        yield
    gather.asked_all()
