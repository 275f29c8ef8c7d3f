"""InitProducerId (22): a number for an idempotent producer, given to nobody else, ever.

Behaviour: from a block that this broker reserved in the keeper before it was asked, so that producers can
begin while the keeper is away. When there is none left they are told COORDINATOR_LOAD_IN_PROGRESS, and ask
again. A producer that comes back with its id and epoch after an error (KIP-360) gets a new id: sequence
numbers start over, as if the epoch had been raised.
Not done: transactions; a request with a transactional id is answered UNSUPPORTED_VERSION. Clients ask for its
coordinator first, and are told there (see ``find_coordinator``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import ask, patience
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

    ask(node, core.InitProducerIdRequest(), respond, seconds_max=patience())
