"""EndTxn (26): commit or abort a transaction (KIP-98)."""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Bool, Int16, Int32, Int64, String, struct


@struct
class EndTxnRequest:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@struct
class EndTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


describes(Api.END_TXN, EndTxnRequest, EndTxnResponse, versions=(0, 2))
