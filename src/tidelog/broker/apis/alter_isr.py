"""AlterIsr (56): a leader asks the controller for another set of in-sync replicas (KIP-497).

Behaviour: the controller writes it to the keeper if leader epoch, version and broker epochs are current.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import Listener, serves
from tidelog.broker.apis.gather import Gather
from tidelog.broker.connection import Request
from tidelog.broker.translation.to_controller import alter_isr_from_wire
from tidelog.core import messages as core
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.messages.alter_isr import (
    AlterIsrResponse,
    PartitionResult,
    TopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.ALTER_ISR, listener=Listener.BETWEEN_BROKERS)
def handle(node: Node, request: Request) -> Steps[None]:
    topics: dict[str, TopicResult] = {}
    gather = Gather(lambda: request.respond(AlterIsrResponse(topics=list(topics.values()))))

    def fill(response: core.AlterIsrResponse) -> None:
        name = response.tp.topic
        topic = topics.setdefault(name, TopicResult(name=name, partitions=[]))
        topic.partitions.append(
            PartitionResult(
                partition_index=response.tp.partition,
                error_code=response.error,
                leader_id=-1,
                leader_epoch=response.leader_epoch,
                isr=list(response.isr),
                current_isr_version=response.version,
            )
        )

    for question in (yield from alter_isr_from_wire(request.body)):
        gather.ask(node, question, fill)
        yield
    gather.asked_all()
