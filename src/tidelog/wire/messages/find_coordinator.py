"""FindCoordinator (10): which broker coordinates a group (key type 0) or a transactional id (1).

Version 4 asks for several at once, each with its own error (KIP-699).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int8, Int16, Int32, String, field, struct


@struct
class FindCoordinatorRequest:
    key: String = field("", until=3)
    key_type: Int8 = field(0, since=1)
    coordinator_keys: list[String] = field([], since=4)


@struct
class Coordinator:
    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class FindCoordinatorResponse:
    throttle_time_ms: Int32 = field(0, since=1)
    error_code: Int16 = field(0, until=3)
    error_message: String | None = field(None, since=1, until=3)
    node_id: Int32 = field(-1, until=3)
    host: String = field("", until=3)
    port: Int32 = field(-1, until=3)
    coordinators: list[Coordinator] = field([], since=4)


describes(
    Api.FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse, versions=(0, 4), flexible_since=3
)
