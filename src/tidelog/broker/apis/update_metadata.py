"""UpdateMetadata (6): the controller's view of the cluster, for the metadata cache.

Behaviour: from the controller only, and only of a current one: the core compares controller and broker
epochs and answers STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH.
Versions: 5, 6. Not offered to clients.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.connection import Request
from tidelog.broker.gather import Gather
from tidelog.broker.inter_broker import update_metadata_from_wire
from tidelog.core.messages import ControlResponse
from tidelog.storage.background import Steps
from tidelog.wire.messages.update_metadata import UpdateMetadataResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


def handle(node: Node, request: Request) -> Steps[None]:
    answer = UpdateMetadataResponse()
    gather = Gather(lambda: request.respond(answer))

    def fill(response: ControlResponse) -> None:
        answer.error_code = response.error
        node.peers.connections_changed()

    gather.ask(node, (yield from update_metadata_from_wire(request.body)), fill)
    gather.asked_all()
