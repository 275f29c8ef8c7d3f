"""LeaderAndIsr (4): leaders and followers of partitions.

Behaviour: accepted only from the current controller: the core compares controller and broker epochs and
answers STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH. A partition whose log the disk refuses gets
KAFKA_STORAGE_ERROR; partitions without an error are not listed.
Not done: versions 0 and 1, which name partitions in another field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import Listener, serves
from tidelog.broker.apis.gather import ask
from tidelog.broker.connection import Request
from tidelog.broker.translation.from_controller import leader_and_isr_from_wire, partition_errors_to_wire
from tidelog.core.messages import ControlResponse
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrPartitionError, LeaderAndIsrResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.LEADER_AND_ISR, listener=Listener.BETWEEN_BROKERS)
def handle(node: Node, request: Request) -> Steps[None]:
    def respond(response: ControlResponse) -> None:
        failed = partition_errors_to_wire(response.partition_errors, LeaderAndIsrPartitionError)
        request.respond(LeaderAndIsrResponse(error_code=response.error, partition_errors=failed))

    ask(node, (yield from leader_and_isr_from_wire(request.body)), respond)
