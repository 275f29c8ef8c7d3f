"""LeaveGroup (13): remove members before their sessions expire.

Version 3 removes several at once, static members by their instance id (KIP-345).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, Int32, String, field, struct


@struct
class MemberIdentity:
    member_id: String
    group_instance_id: String | None = None


@struct
class LeaveGroupRequest:
    group_id: String
    member_id: String = field("", until=2)
    members: list[MemberIdentity] = field([], since=3)


@struct
class MemberResponse:
    member_id: String
    group_instance_id: String | None
    error_code: Int16 = 0


@struct
class LeaveGroupResponse:
    throttle_time_ms: Int32 = field(0, since=1)
    error_code: Int16 = 0
    members: list[MemberResponse] = field([], since=3)


describes(Api.LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse, versions=(0, 4), flexible_since=4)
