"""ControlledShutdown (7): a broker tells the controller that it is about to leave.

Behaviour: the controller moves leadership away and answers with what it could not move. While it does not
reach the keeper it says so at once, as NOT_CONTROLLER: the broker need not wait for what cannot be done.
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
    ask(node, core.ControlledShutdownRequest(BrokerId(body.broker_id), body.broker_epoch), respond)
