"""RelieveReplica (1001), tidelog's own: a broker reports to the controller that it cannot write to a log.

Behaviour: the controller elects another in-sync replica and removes this one from the ISR. If there is no
other, it stays the leader, and the answer is ELIGIBLE_LEADERS_NOT_AVAILABLE.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import Listener, serves
from tidelog.broker.apis.gather import ask
from tidelog.broker.connection import Request
from tidelog.broker.translation.to_controller import relieve_replica_from_wire
from tidelog.core import messages as core
from tidelog.wire.api import Api
from tidelog.wire.messages.relieve_replica import RelieveReplicaResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.RELIEVE_REPLICA, listener=Listener.BETWEEN_BROKERS)
def handle(node: Node, request: Request) -> None:
    def respond(response: core.RelieveReplicaResponse) -> None:
        request.respond(RelieveReplicaResponse(error_code=response.error))

    ask(node, relieve_replica_from_wire(request.body), respond)
