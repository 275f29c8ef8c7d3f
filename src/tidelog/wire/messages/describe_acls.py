"""DescribeAcls (29): the access rules that match a filter. Version 1 adds prefixed names (KIP-290)."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int8, Int16, Int32, String, field, struct


@struct
class DescribeAclsRequest:
    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = field(3, since=1)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@struct
class AclDescription:
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DescribeAclsResource:
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field(3, since=1)
    acls: list[AclDescription]


@struct
class DescribeAclsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    resources: list[DescribeAclsResource]


describes(Api.DESCRIBE_ACLS, DescribeAclsRequest, DescribeAclsResponse, versions=(0, 2), flexible_since=2)
