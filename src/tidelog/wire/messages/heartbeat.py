"""Heartbeat (12): a member keeps its session alive, and learns whether a rebalance is under way."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, Int32, String, field, struct


@struct
class HeartbeatRequest:
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field(None, since=3)


@struct
class HeartbeatResponse:
    throttle_time_ms: Int32 = field(0, since=1)
    error_code: Int16 = 0


describes(Api.HEARTBEAT, HeartbeatRequest, HeartbeatResponse, versions=(0, 4), flexible_since=4)
