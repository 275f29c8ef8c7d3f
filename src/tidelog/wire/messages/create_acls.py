"""CreateAcls (30): add access rules. Version 1 adds prefixed names (KIP-290)."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int8, Int16, Int32, String, field, struct


@struct
class AclCreation:
    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = field(3, since=1)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class CreateAclsRequest:
    creations: list[AclCreation]


@struct
class AclCreationResult:
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class CreateAclsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult]


describes(Api.CREATE_ACLS, CreateAclsRequest, CreateAclsResponse, versions=(0, 2), flexible_since=2)
