"""StopReplica (5): stop playing any role in some partitions, and perhaps delete them.

Behaviour: from the controller only, and only of a current one: the core compares controller and broker
epochs and answers STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH.
A partition whose log the disk refuses has KAFKA_STORAGE_ERROR of its own; those that were served are not
listed.
Not done: versions 0 to 2 name partitions in other fields, and those are not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import Listener, serves
from tidelog.broker.apis.gather import ask
from tidelog.broker.connection import Request
from tidelog.broker.translation.brokers import partition_errors_to_wire, stop_replica_from_wire
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
