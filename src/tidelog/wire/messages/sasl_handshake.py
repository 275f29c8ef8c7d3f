"""SaslHandshake (17): agree on a SASL mechanism.

After version 0 the mechanism's tokens follow as bare frames, after version 1 in SaslAuthenticate (KIP-152).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, String, struct


@struct
class SaslHandshakeRequest:
    mechanism: String


@struct
class SaslHandshakeResponse:
    error_code: Int16 = 0
    mechanisms: list[String]


describes(Api.SASL_HANDSHAKE, SaslHandshakeRequest, SaslHandshakeResponse, versions=(0, 1))
