"""DeleteGroups (42): delete consumer groups that have no members."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, Int32, String, struct


@struct
class DeleteGroupsRequest:
    groups_names: list[String]


@struct
class DeletableGroupResult:
    group_id: String
    error_code: Int16 = 0


@struct
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult]


describes(Api.DELETE_GROUPS, DeleteGroupsRequest, DeleteGroupsResponse, versions=(0, 2), flexible_since=2)
