"""ApiVersions (18).

Behaviour: lists what is served. A version that is not known is answered by the server itself, before there
is a body to hand to a handler.
Not done: features (KIP-584); nothing here has any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import offered, serves
from tidelog.broker.connection import Request
from tidelog.wire.api import Api
from tidelog.wire.messages.api_versions import ApiVersionsResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.API_VERSIONS)
def handle(_node: Node, request: Request) -> None:
    request.respond(ApiVersionsResponse(api_keys=offered()))
