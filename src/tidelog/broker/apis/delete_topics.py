"""DeleteTopics (20).

Behaviour: answered when the topic is marked for deletion and the controller has begun to send StopReplica.
Its logs are deleted after that; a broker that is down deletes its logs when it returns. Topics have no ids: a
topic named by id (version 6) is answered UNSUPPORTED_VERSION.
Not done: nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import Gather, deadline_seconds
from tidelog.broker.connection import Request
from tidelog.core import topic_messages
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.wire.schema import NO_UUID

if TYPE_CHECKING:
    from tidelog.broker.node import Node

IDS_SINCE = 6


@serves(Api.DELETE_TOPICS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: DeleteTopicsRequest = request.body
    topics = body.topics
    if request.header.api_version < IDS_SINCE:
        topics = yield from listed(DeleteTopicState(name=name) for name in body.topic_names)
    results: dict[str | None, DeletableTopicResult] = {}
    refused: list[DeletableTopicResult] = []
    gather = Gather(
        lambda: request.respond(DeleteTopicsResponse(responses=[*refused, *results.values()])),
        seconds_max=deadline_seconds(body.timeout_ms),
    )
    for topic in topics:
        yield
        if topic.name is None or topic.topic_id != NO_UUID:
            refused.append(_refused(topic))
        elif topic.name not in results:
            result = results[topic.name] = DeletableTopicResult(name=topic.name)
            if node.settings.delete_topic_enable:
                gather.ask(node, topic_messages.DeleteTopicRequest(topic=topic.name), partial(_fill, result))
            else:
                result.error_code = ErrorCode.TOPIC_DELETION_DISABLED
    gather.asked_all()


def _fill(result: DeletableTopicResult, response: topic_messages.DeleteTopicResponse) -> None:
    result.error_code, result.error_message = response.error, response.message


def _refused(topic: DeleteTopicState) -> DeletableTopicResult:
    error, message = ErrorCode.UNSUPPORTED_VERSION, "Topic IDs are not supported on the server."
    if topic.name is not None:
        error, message = ErrorCode.INVALID_REQUEST, "Topic name and topic ID can not both be specified."
    elif topic.topic_id == NO_UUID:
        error, message = ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
    return DeletableTopicResult(
        name=topic.name, topic_id=topic.topic_id, error_code=error, error_message=message
    )
