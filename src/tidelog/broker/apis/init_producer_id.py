"""InitProducerId (22): a unique id for an idempotent producer.

Behaviour: the id comes from a block that this broker has reserved in the keeper, so that producers can start
while the keeper is not connected. When the block is used up they get COORDINATOR_LOAD_IN_PROGRESS, and retry.
A producer that sends its id and epoch after an error (KIP-360) gets a new id: sequence numbers start over, as
if the epoch had been raised.
Not done: transactions; a request with a transactional id is answered UNSUPPORTED_VERSION. Clients ask for its
coordinator first, and get the error there (see ``find_coordinator``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import ask, deadline_seconds
from tidelog.broker.connection import Request
from tidelog.core import messages as core
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.INIT_PRODUCER_ID)
def handle(node: Node, request: Request) -> None:
    body: InitProducerIdRequest = request.body
    if body.transactional_id is not None:
        error = ErrorCode.UNSUPPORTED_VERSION
        request.respond(InitProducerIdResponse(error_code=error, producer_epoch=-1), failed=True)
        return

    def respond(response: core.InitProducerIdResponse) -> None:
        request.respond(
            InitProducerIdResponse(
                error_code=response.error,
                producer_id=response.producer_id,
                producer_epoch=response.producer_epoch,
            )
        )

    ask(node, core.InitProducerIdRequest(), respond, seconds_max=deadline_seconds())
