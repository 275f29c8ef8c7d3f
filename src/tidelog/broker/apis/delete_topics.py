"""DeleteTopics (20).

Behaviour: answered when the topic is marked for deletion and the controller has begun to send StopReplica.
Its logs are deleted after that; a broker that is down deletes its logs when it returns. A topic may be named
by its id (version 6); UNKNOWN_TOPIC_ID if there is none with it.
Not done: nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import Gather, deadline_seconds
from tidelog.broker.connection import Request
from tidelog.core import topic_messages
from tidelog.core.topic_ids import from_wire, to_wire
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
        error = _error(node, topic)
        if error is not None:
            refused.append(error)
            continue
        topic_id = from_wire(topic.topic_id)
        name = node.core.metadata.topic_names[topic_id] if topic.name is None else topic.name
        if name not in results:
            result = results[name] = DeletableTopicResult(
                name=name, topic_id=to_wire(node.core.metadata.topic_id(name))
            )
            if node.settings.delete_topic_enable:
                deletion = topic_messages.DeleteTopicRequest(topic=name, topic_id=topic_id)
                gather.ask(node, deletion, partial(_fill, result))
            else:
                result.error_code = ErrorCode.TOPIC_DELETION_DISABLED
    gather.asked_all()


def _fill(result: DeletableTopicResult, response: topic_messages.DeleteTopicResponse) -> None:
    result.error_code, result.error_message = response.error, response.message


def _error(node: Node, topic: DeleteTopicState) -> DeletableTopicResult | None:
    by_id = topic.topic_id != NO_UUID
    error, message = ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
    if by_id and topic.name is not None:
        error, message = ErrorCode.INVALID_REQUEST, "Topic name and topic ID can not both be specified."
    elif not by_id and topic.name is None:
        error, message = ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
    elif not by_id or from_wire(topic.topic_id) in node.core.metadata.topic_names:
        return None
    return DeletableTopicResult(
        name=topic.name, topic_id=topic.topic_id, error_code=error, error_message=message
    )
