"""IncrementalAlterConfigs (44): change single settings and keep the others (KIP-339)."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Bool, Int8, Int16, Int32, String, struct


@struct
class AlterableConfig:
    """`config_operation`: 0 set, 1 delete, 2 append, 3 subtract."""

    name: String
    config_operation: Int8
    value: String | None


@struct
class AlterConfigsResource:
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


@struct
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource]
    validate_only: Bool


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String


@struct
class IncrementalAlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]


describes(
    Api.INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    versions=(0, 1),
    flexible_since=1,
)
