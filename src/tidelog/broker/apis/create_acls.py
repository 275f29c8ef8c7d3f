"""CreateAcls (30): add access rules.

Behaviour: each is refused with SECURITY_DISABLED, as by a Kafka without an authorizer.
Not done: access rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.describe_acls import NO_AUTHORIZER
from tidelog.broker.connection import Request
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.CREATE_ACLS)
def handle(_node: Node, request: Request) -> None:
    body: CreateAclsRequest = request.body
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    request.respond(CreateAclsResponse(results=[refused] * len(body.creations)), failed=True)
