"""InitProducerId (22): an id and an epoch for an idempotent or transactional producer.

Since version 3 a producer may ask for a new epoch of the id it has (KIP-360).
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, Int32, Int64, String, field, struct


@struct
class InitProducerIdRequest:
    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = field(-1, since=3)
    producer_epoch: Int16 = field(-1, since=3)


@struct
class InitProducerIdResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16


describes(
    Api.INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse, versions=(0, 4), flexible_since=2
)
