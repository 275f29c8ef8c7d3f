"""DeleteTopics (20).

Behaviour: answered when the topic is marked for deletion and brokers are being told to forget it; its logs
are deleted after that, those of a broker that is down when it returns.
Versions: 0 to 5.
Not done: deletion by topic id (6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.connection import Request
from tidelog.broker.gather import Gather
from tidelog.core import messages as core
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node


def handle(node: Node, request: Request) -> None:
    body: DeleteTopicsRequest = request.body
    results = [DeletableTopicResult(name=name) for name in dict.fromkeys(body.topic_names)]
    gather = Gather(lambda: request.respond(DeleteTopicsResponse(responses=results)))
    for result in results:
        if not node.settings.delete_topic_enable:
            result.error_code = ErrorCode.TOPIC_DELETION_DISABLED
            continue

        def fill(response: core.DeleteTopicResponse, result: DeletableTopicResult = result) -> None:
            result.error_code, result.error_message = response.error, response.message

        gather.ask(node, core.DeleteTopicRequest(result.name), fill)
    gather.asked_all()
