"""UpdateMetadata (6): the controller's view of the cluster, for the metadata cache.

Behaviour: accepted only from the current controller: the core compares controller and broker epochs and
answers STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH.
Not done: versions 0 to 4, which name partitions in another field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import Listener, serves
from tidelog.broker.apis.gather import ask
from tidelog.broker.connection import Request
from tidelog.broker.translation.from_controller import update_metadata_from_wire
from tidelog.core.messages import ControlResponse
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.messages.update_metadata import UpdateMetadataResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.UPDATE_METADATA, listener=Listener.BETWEEN_BROKERS)
def handle(node: Node, request: Request) -> Steps[None]:
    def respond(response: ControlResponse) -> None:
        node.peers.connections_changed()
        request.respond(UpdateMetadataResponse(error_code=response.error))

    ask(node, (yield from update_metadata_from_wire(request.body)), respond)
