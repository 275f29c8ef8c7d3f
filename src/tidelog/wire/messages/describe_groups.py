"""DescribeGroups (15): the state and the members of consumer groups."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.operations import NOT_ASKED
from tidelog.wire.schema import Bool, Bytes, Int16, Int32, String, field, struct


@struct
class DescribeGroupsRequest:
    groups: list[String]
    include_authorized_operations: Bool = field(False, since=3)


@struct
class DescribedGroupMember:
    member_id: String
    group_instance_id: String | None = field(None, since=4)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


@struct
class DescribedGroup:
    error_code: Int16 = 0
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: list[DescribedGroupMember]
    authorized_operations: Int32 = field(NOT_ASKED, since=3)


@struct
class DescribeGroupsResponse:
    throttle_time_ms: Int32 = field(0, since=1)
    groups: list[DescribedGroup]


describes(
    Api.DESCRIBE_GROUPS, DescribeGroupsRequest, DescribeGroupsResponse, versions=(0, 5), flexible_since=5
)
