"""FindCoordinator (10): which broker is in charge of a group (key type 0) or of a transactional id (1).

Later versions than 3 ask for several at once; all clients fall back.
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api
from tidelog.wire.registry import register
from tidelog.wire.schema import Int8, Int16, Int32, String, field, struct


@struct
class FindCoordinatorRequest:
    key: String
    key_type: Int8 = field(0, since=1)


@struct
class FindCoordinatorResponse:
    throttle_time_ms: Int32 = field(0, since=1)
    error_code: Int16 = 0
    error_message: String | None = field(None, since=1)
    node_id: Int32
    host: String
    port: Int32


register(
    Api.FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse, versions=(0, 3), flexible_since=3
)
