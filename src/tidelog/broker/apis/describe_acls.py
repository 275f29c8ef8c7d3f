"""DescribeAcls (29): the access rules that match a filter.

Behaviour: SECURITY_DISABLED, as in a Kafka without an authorizer, which tools understand.
Not done: access rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.connection import Request
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_acls import DescribeAclsResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node

NO_AUTHORIZER = "No Authorizer is configured: tidelog has no access rules."


@serves(Api.DESCRIBE_ACLS)
def handle(_node: Node, request: Request) -> None:
    error = ErrorCode.SECURITY_DISABLED
    answer = DescribeAclsResponse(error_code=error, error_message=NO_AUTHORIZER, resources=[])
    request.respond(answer, failed=True)
