"""CreateTopics (19).

Behaviour: the controller creates topics one by one; any other broker answers NOT_CONTROLLER. Settings are
checked here, before anything is written. A topic named twice in a request is refused both times. A request
for more than 10,000 partitions in all is refused as a whole (POLICY_VIOLATION), as in Kafka since 4.0. Under
the rules ``hw`` and ``kip101`` topics have no ids: version 7 answers the null id.
Not done: waiting until all brokers know the leaders; clients poll metadata for that.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tidelog.broker.apis import Listener, serves
from tidelog.broker.apis.gather import Gather, deadline_seconds
from tidelog.broker.connection import Request
from tidelog.broker.error_messages import brief
from tidelog.broker.topic_settings import require_few
from tidelog.core import topic_messages
from tidelog.core.controller.topic_creation import PARTITIONS_PER_REQUEST_MAX, TOO_MANY_PARTITIONS
from tidelog.core.topic_ids import to_wire
from tidelog.core.types import BrokerId
from tidelog.settings.table import SettingsError
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node


@serves(Api.CREATE_TOPICS, listener=Listener.CLIENTS | Listener.BETWEEN_BROKERS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: CreateTopicsRequest = request.body
    named: Counter[str] = Counter()
    partitions = 0
    for topic in body.topics:
        named[topic.name] += 1
        partitions += _partitions(node, topic)
        yield
    if partitions > PARTITIONS_PER_REQUEST_MAX:
        refused = yield from listed(_failed(name, *TOO_MANY_PARTITIONS) for name in named)
        request.respond(CreateTopicsResponse(topics=refused), failed=True)
        return
    twice = (name for name, times in named.items() if times > 1)
    results = [_failed(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name in twice]
    gather = Gather(
        lambda: request.respond(CreateTopicsResponse(topics=results)),
        seconds_max=deadline_seconds(body.timeout_ms),
    )
    for topic in body.topics:
        if named[topic.name] > 1:
            continue
        try:
            require_few(topic.configs)
            checked = node.topics.checked({setting.name: setting.value or "" for setting in topic.configs})
        except SettingsError as error:
            results.append(_failed(topic.name, ErrorCode.INVALID_CONFIG, str(error)))
            continue
        result = CreatableTopicResult(name=topic.name)
        results.append(result)

        def fill(response: topic_messages.CreateTopicResponse, result: CreatableTopicResult = result) -> None:
            _fill(node, result, response)

        gather.ask(node, _question(topic, checked, validate_only=body.validate_only), fill)
        yield
    gather.asked_all()


def _question(
    topic: CreatableTopic, config: dict[str, str], *, validate_only: bool
) -> topic_messages.CreateTopicRequest:
    assignment = {part.partition_index: tuple(map(BrokerId, part.broker_ids)) for part in topic.assignments}
    return topic_messages.CreateTopicRequest(
        topic=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignment=assignment or None,
        config=config,
        validate_only=validate_only,
    )


def _fill(node: Node, result: CreatableTopicResult, response: topic_messages.CreateTopicResponse) -> None:
    result.error_code, result.error_message = response.error, brief(response.message)
    if response.error is ErrorCode.NONE:
        result.topic_id = to_wire(response.topic_id)
        result.num_partitions = response.partitions
        result.replication_factor = response.replication_factor
        result.configs = [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=False,
                config_source=entry.source,
                is_sensitive=False,
            )
            for entry in node.topics.described(node.topics.overrides(result.name))
        ]


def _partitions(node: Node, topic: CreatableTopic) -> int:
    """The number of requested partitions. At least 1, because every topic is work."""
    if topic.assignments:
        return len(topic.assignments)
    default = topic.num_partitions == topic_messages.BROKER_DEFAULT
    return node.settings.num_partitions if default else max(topic.num_partitions, 1)


def _failed(name: str, error: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error, error_message=brief(message))
