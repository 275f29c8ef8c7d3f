"""SaslAuthenticate (36): one step of a SASL exchange; version 1 adds the session lifetime (KIP-368)."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Bytes, Int16, Int64, String, field, struct


@struct
class SaslAuthenticateRequest:
    auth_bytes: Bytes


@struct
class SaslAuthenticateResponse:
    error_code: Int16 = 0
    error_message: String | None = None
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = field(0, since=1)


describes(
    Api.SASL_AUTHENTICATE,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    versions=(0, 2),
    flexible_since=2,
)
