"""ApiVersions (18): the APIs and versions that the broker supports.

It is a client's first request. To an unknown version the broker answers in version 0 with
UNSUPPORTED_VERSION, and the client asks again with a version that the answer lists. Version 3 names the
client's software (KIP-511).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Bool, Int16, Int32, Int64, String, field, struct


@struct
class ApiVersionsRequest:
    client_software_name: String = field("", since=3)
    client_software_version: String = field("", since=3)


@struct
class ApiVersion:
    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class SupportedFeatureKey:
    name: String
    min_version: Int16
    max_version: Int16


@struct
class FinalizedFeatureKey:
    name: String
    max_version_level: Int16
    min_version_level: Int16


@struct
class ApiVersionsResponse:
    error_code: Int16 = 0
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = field(0, since=1)
    supported_features: list[SupportedFeatureKey] = field([], since=3, tag=0)
    finalized_features_epoch: Int64 = field(-1, since=3, tag=1)
    finalized_features: list[FinalizedFeatureKey] = field([], since=3, tag=2)
    zk_migration_ready: Bool = field(False, since=3, tag=3)


describes(Api.API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse, versions=(0, 3), flexible_since=3)
