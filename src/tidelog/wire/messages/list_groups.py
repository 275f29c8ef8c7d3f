"""ListGroups (16): the groups this broker coordinates; since version 4 only those in given states."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, Int32, String, field, struct


@struct
class ListGroupsRequest:
    states_filter: list[String] = field([], since=4)


@struct
class ListedGroup:
    group_id: String
    protocol_type: String
    group_state: String = field("", since=4)


@struct
class ListGroupsResponse:
    throttle_time_ms: Int32 = field(0, since=1)
    error_code: Int16 = 0
    groups: list[ListedGroup]


describes(Api.LIST_GROUPS, ListGroupsRequest, ListGroupsResponse, versions=(0, 4), flexible_since=3)
