"""DescribeConfigs (32): the settings of topics, of this broker, and of every broker.

Behaviour: each setting with the source of its value. Of a topic: the topic, this broker's file, or the
default. Of this broker: what was set for it or for every broker at run time, its file, or the default; what
is in the file is read-only. Of every broker (the empty name), as in Kafka: only what is set. A resource that
is named twice is described once, so that the size of the answer is bounded.
Not done: synonyms beyond the source itself, broker loggers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import Gather, deadline_seconds
from tidelog.broker.connection import Request
from tidelog.core import topic_messages
from tidelog.settings.table import Described
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node

TOPIC, BROKER = 2, 4
NAMED_TWICE = "The resource is named twice: name it once, with all settings to describe."


@serves(Api.DESCRIBE_CONFIGS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: DescribeConfigsRequest = request.body
    results: list[DescribeConfigsResult] = []
    described: set[tuple[int, str]] = set()
    response = DescribeConfigsResponse(results=results)
    gather = Gather(lambda: request.respond(response), seconds_max=deadline_seconds())
    for resource in body.resources:
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name, configs=[]
        )
        results.append(result)
        yield
        which = resource.resource_type, resource.resource_name
        if which in described:
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, NAMED_TWICE
            continue
        described.add(which)
        if resource.resource_type == TOPIC:

            def fill(
                response: topic_messages.DescribeTopicConfigResponse,
                resource: DescribeConfigsResource = resource,
                result: DescribeConfigsResult = result,
            ) -> None:
                result.error_code = response.error
                if response.error is ErrorCode.NONE:
                    entries = node.topics.described(response.values)
                    result.configs = _listed(entries, resource, body, read_only=False)

            gather.ask(node, topic_messages.DescribeTopicConfigRequest(topic=resource.resource_name), fill)
        elif resource.resource_type == BROKER and resource.resource_name in ("", str(node.id)):
            result.configs = _of_broker(node, resource, body)
        else:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = f"Ask broker {resource.resource_name[:100]} itself, or for a topic."
    gather.asked_all()


def _of_broker(
    node: Node, resource: DescribeConfigsResource, body: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    running = node.running_settings
    if not resource.resource_name:
        return _listed(running.described_for_every_broker(), resource, body, read_only=False)
    of_file = _listed(node.described_settings(), resource, body, read_only=True)
    return of_file + _listed(running.described(), resource, body, read_only=False)


def _listed(
    entries: Iterable[Described],
    resource: DescribeConfigsResource,
    body: DescribeConfigsRequest,
    *,
    read_only: bool,
) -> list[DescribeConfigsResourceResult]:
    wanted = None if resource.configuration_keys is None else frozenset(resource.configuration_keys)
    return [
        DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=read_only,
            is_default=entry.is_default,
            config_source=entry.source,
            is_sensitive=False,
            synonyms=[DescribeConfigsSynonym(name=entry.name, value=entry.value, source=entry.source)]
            if body.include_synonyms
            else [],
            config_type=entry.type,
            documentation=entry.doc if body.include_documentation else None,
        )
        for entry in entries
        if wanted is None or entry.name in wanted
    ]
