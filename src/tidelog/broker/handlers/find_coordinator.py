"""FindCoordinator (10): which broker looks after a consumer group.

Behaviour: COORDINATOR_NOT_AVAILABLE. It is offered all the same, because librdkafka takes its absence for a
broker too old to know LZ4 and sends its batches uncompressed.
Versions: 0 to 3.
Not done: consumer groups, transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.connection import Request
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


def handle(_node: Node, request: Request) -> None:
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    message = "consumer groups are not served; assign partitions to consumers yourself"
    request.respond(
        FindCoordinatorResponse(error_code=error, error_message=message, node_id=-1, host="", port=-1),
        failed=True,
    )
