"""DeleteAcls (31): remove the access rules that match filters.

Behaviour: each filter is refused with SECURITY_DISABLED, as by a Kafka without an authorizer.
Not done: access rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.describe_acls import NO_AUTHORIZER
from tidelog.broker.connection import Request
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.DELETE_ACLS)
def handle(_node: Node, request: Request) -> None:
    body: DeleteAclsRequest = request.body
    error = ErrorCode.SECURITY_DISABLED
    refused = DeleteAclsFilterResult(error_code=error, error_message=NO_AUTHORIZER, matching_acls=[])
    request.respond(DeleteAclsResponse(filter_results=[refused] * len(body.filters)), failed=True)
