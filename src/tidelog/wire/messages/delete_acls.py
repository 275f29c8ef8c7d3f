"""DeleteAcls (31): remove the access rules that match filters. Version 1 adds prefixed names (KIP-290)."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int8, Int16, Int32, String, field, struct


@struct
class DeleteAclsFilter:
    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = field(3, since=1)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@struct
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter]


@struct
class DeleteAclsMatchingAcl:
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field(3, since=1)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DeleteAclsFilterResult:
    error_code: Int16 = 0
    error_message: String | None = None
    matching_acls: list[DeleteAclsMatchingAcl]


@struct
class DeleteAclsResponse:
    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult]


describes(Api.DELETE_ACLS, DeleteAclsRequest, DeleteAclsResponse, versions=(0, 2), flexible_since=2)
