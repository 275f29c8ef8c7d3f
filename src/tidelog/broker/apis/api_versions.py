"""ApiVersions (18).

Behaviour: lists what is served. A version that is not known is answered by the server itself, before there
is a body to hand to a handler.
Versions: 0 to 3.
Not done: features (KIP-584); nothing here has any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.connection import Request
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


def handle(node: Node, request: Request) -> None:
    keys = [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in node.server.advertised.items()
    ]
    request.respond(ApiVersionsResponse(api_keys=keys))
