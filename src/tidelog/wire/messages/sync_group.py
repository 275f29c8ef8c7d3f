"""SyncGroup (14): the group's leader sends the assignment, every member receives its own part."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Bytes, Int16, Int32, String, field, struct


@struct
class SyncGroupRequestAssignment:
    member_id: String
    assignment: Bytes


@struct
class SyncGroupRequest:
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field(None, since=3)
    protocol_type: String | None = field(None, since=5)
    protocol_name: String | None = field(None, since=5)
    assignments: list[SyncGroupRequestAssignment]


@struct
class SyncGroupResponse:
    throttle_time_ms: Int32 = field(0, since=1)
    error_code: Int16 = 0
    protocol_type: String | None = field(None, since=5)
    protocol_name: String | None = field(None, since=5)
    assignment: Bytes


describes(Api.SYNC_GROUP, SyncGroupRequest, SyncGroupResponse, versions=(0, 5), flexible_since=4)
