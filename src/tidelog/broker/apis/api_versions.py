"""ApiVersions (18).

Behaviour: lists the served APIs. The server itself answers an unknown version, because its body cannot be
decoded.
Not done: features (KIP-584).
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
