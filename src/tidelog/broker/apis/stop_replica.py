"""StopReplica (5): stop leading or following partitions, and delete them if requested.

Behaviour: accepted only from the current controller: the core compares controller and broker epochs and
answers STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH. A partition whose log the disk refuses gets
KAFKA_STORAGE_ERROR; partitions without an error are not listed.
Not done: versions 0 to 2, which name partitions in other fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import Listener, serves
from tidelog.broker.apis.gather import ask
from tidelog.broker.connection import Request
from tidelog.broker.translation.from_controller import partition_errors_to_wire, stop_replica_from_wire
from tidelog.core.messages import ControlResponse
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.STOP_REPLICA, listener=Listener.BETWEEN_BROKERS)
def handle(node: Node, request: Request) -> Steps[None]:
    def respond(response: ControlResponse) -> None:
        failed = partition_errors_to_wire(response.partition_errors, StopReplicaPartitionError)
        request.respond(StopReplicaResponse(error_code=response.error, partition_errors=failed))

    ask(node, (yield from stop_replica_from_wire(request.body)), respond)
