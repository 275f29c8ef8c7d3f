"""ControlledShutdown (7), to the controller: move leadership away from a broker that is about to stop.

Version 0 is the one request whose header has no client id.
"""

from __future__ import annotations

from tidelog.wire.api_keys import Api, describes
from tidelog.wire.schema import Int16, Int32, Int64, String, field, struct


@struct
class ControlledShutdownRequest:
    broker_id: Int32
    broker_epoch: Int64 = field(-1, since=2)


@struct
class RemainingPartition:
    topic_name: String
    partition_index: Int32


@struct
class ControlledShutdownResponse:
    error_code: Int16 = 0
    remaining_partitions: list[RemainingPartition]


describes(
    Api.CONTROLLED_SHUTDOWN,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    versions=(0, 3),
    flexible_since=3,
)
