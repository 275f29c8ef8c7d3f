"""DescribeConfigs (32): the settings of topics and brokers, and where each comes from."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Bool, Int8, Int16, Int32, String, field, struct


@struct
class DescribeConfigsResource:
    """`configuration_keys` is None to ask for all."""

    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None


@struct
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource]
    include_synonyms: Bool = field(False, since=1)
    include_documentation: Bool = field(False, since=3)


@struct
class DescribeConfigsSynonym:
    name: String
    value: String | None
    source: Int8


@struct
class DescribeConfigsResourceResult:
    """`config_source` has replaced `is_default` in version 1."""

    name: String
    value: String | None
    read_only: Bool
    is_default: Bool = field(False, until=0)
    config_source: Int8 = field(-1, since=1)
    is_sensitive: Bool
    synonyms: list[DescribeConfigsSynonym] = field([], since=1)
    config_type: Int8 = field(0, since=3)
    documentation: String | None = field(None, since=3)


@struct
class DescribeConfigsResult:
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult]


@struct
class DescribeConfigsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult]


describes(Api.DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResponse, versions=(0, 3))
