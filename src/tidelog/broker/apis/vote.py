"""Vote (1000), tidelog's own: the controller asks a replica for the end of its log.

Behaviour: under the ``majority`` rules only. The replica promises to ignore leaders of earlier epochs.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import Listener, serves
from tidelog.broker.apis.gather import ask
from tidelog.broker.connection import Request
from tidelog.broker.translation.from_controller import vote_from_wire
from tidelog.core import messages as core
from tidelog.wire.api import Api
from tidelog.wire.messages.vote import VoteResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.VOTE, listener=Listener.BETWEEN_BROKERS)
def handle(node: Node, request: Request) -> None:
    def respond(response: core.VoteResponse) -> None:
        request.respond(
            VoteResponse(
                error_code=response.error,
                topic_name=response.tp.topic,
                partition_index=response.tp.partition,
                leader_epoch=response.leader_epoch,
                last_epoch=response.last_epoch,
                end_offset=response.end_offset,
            )
        )

    ask(node, vote_from_wire(request.body), respond)
