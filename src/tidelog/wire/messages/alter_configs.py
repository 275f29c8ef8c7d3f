"""AlterConfigs (33): replace all settings of a resource; a setting that is not named returns to its
default."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Bool, Int8, Int16, Int32, String, struct


@struct
class AlterableConfig:
    name: String
    value: String | None


@struct
class AlterConfigsResource:
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


@struct
class AlterConfigsRequest:
    resources: list[AlterConfigsResource]
    validate_only: Bool


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String


@struct
class AlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]


describes(Api.ALTER_CONFIGS, AlterConfigsRequest, AlterConfigsResponse, versions=(0, 2), flexible_since=2)
