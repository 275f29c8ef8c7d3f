"""LeaderAndIsr (4): who leads and who follows which partition.

Behaviour: from the controller only, and only of a current one: the core compares controller and broker
epochs and answers STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH.
Versions: 0 to 4. Not offered to clients.
Not done: an error per partition; a request is taken or refused as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.connection import Request
from tidelog.broker.gather import Gather
from tidelog.broker.inter_broker import leader_and_isr_from_wire
from tidelog.core.messages import ControlResponse
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


def handle(node: Node, request: Request) -> None:
    answer = LeaderAndIsrResponse(partition_errors=[])
    gather = Gather(lambda: request.respond(answer))

    def fill(response: ControlResponse) -> None:
        answer.error_code = response.error

    gather.ask(node, leader_and_isr_from_wire(request.body), fill)
    gather.asked_all()
