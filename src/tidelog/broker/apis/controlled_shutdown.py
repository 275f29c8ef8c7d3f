"""ControlledShutdown (7): a broker announces its shutdown to the controller.

Behaviour: the controller moves leadership away and answers with the partitions that it could not move.
Without a connection to the keeper it answers NOT_CONTROLLER at once, so that the broker does not wait in
vain.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import Listener, serves
from tidelog.broker.apis.gather import ask
from tidelog.broker.connection import Request
from tidelog.core import messages as core
from tidelog.core.types import BrokerId
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.CONTROLLED_SHUTDOWN, listener=Listener.BETWEEN_BROKERS)
def handle(node: Node, request: Request) -> None:
    if not node.keeper.connected:
        error = ErrorCode.NOT_CONTROLLER
        request.respond(ControlledShutdownResponse(error_code=error, remaining_partitions=[]), failed=True)
        return

    def respond(response: core.ControlledShutdownResponse) -> None:
        remaining = [
            RemainingPartition(topic_name=tp.topic, partition_index=tp.partition) for tp in response.remaining
        ]
        request.respond(ControlledShutdownResponse(error_code=response.error, remaining_partitions=remaining))

    body = request.body
    ask(
        node,
        core.ControlledShutdownRequest(broker=BrokerId(body.broker_id), broker_epoch=body.broker_epoch),
        respond,
    )
