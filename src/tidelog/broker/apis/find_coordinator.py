"""FindCoordinator (10): which broker coordinates a consumer group.

Behaviour: the leader of the group's partition of ``__consumer_offsets``. The first request makes the
controller create that topic, and is answered when the topic exists: clients that get an error wait a second
before they ask again. If that takes too long, or while the partition has no leader, the answer is
COORDINATOR_NOT_AVAILABLE. From version 4 on the request names several groups, each with its own error
(KIP-699).
Not done: transactions. A request for the coordinator of a transactional id gets an error message, which Java
clients and librdkafka show, and a code that clients treat as final: UNSUPPORTED_VERSION; up to version 3
CLUSTER_AUTHORIZATION_FAILED, because librdkafka, which uses those versions, retries other errors for a
minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.connection import Request
from tidelog.groups.records import TOPIC
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node

GROUP, TRANSACTION = 0, 1
SEVERAL_SINCE = 4
WAITED_FOR_MAX = 10
"""Wait only until this many groups have a coordinator; the others are usually found with them."""
NO_TRANSACTIONS = (
    "tidelog does not serve transactions yet: use a producer without transactional.id "
    "(Kafka Streams: processing.guarantee=at_least_once)"
)


@serves(Api.FIND_COORDINATOR)
def handle(node: Node, request: Request) -> Steps[None]:
    body: FindCoordinatorRequest = request.body
    keys = body.coordinator_keys if request.header.api_version >= SEVERAL_SINCE else [body.key]
    if body.key_type == TRANSACTION:
        batched = request.header.api_version >= SEVERAL_SINCE
        error = ErrorCode.UNSUPPORTED_VERSION if batched else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        yield from _respond(request, (_refused(key, error, NO_TRANSACTIONS) for key in keys))
    elif body.key_type != GROUP:
        error, why = ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {body.key_type}"
        yield from _respond(request, (_refused(key, error, why) for key in keys))
    elif TOPIC not in node.core.metadata.topics:
        node.create_topic(TOPIC)
        node.groups.wait_for(
            lambda: all(node.groups.whereabouts(group) is not None for group in keys[:WAITED_FOR_MAX]),
            lambda: request.go_on(_respond(request, (_coordinator(node, group) for group in keys))),
        )
    else:
        yield from _respond(request, (_coordinator(node, group) for group in keys))


def _coordinator(node: Node, group: str) -> Coordinator:
    found = node.groups.whereabouts(group)
    if found is None:
        why = "the group has no coordinator yet; ask again"
        return _refused(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
    broker, at = found
    return Coordinator(key=group, node_id=broker, host=at.host, port=at.port)


def _refused(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)


def _respond(request: Request, coordinators: Iterable[Coordinator]) -> Steps[None]:
    found = yield from listed(coordinators)
    failed = any(each.error_code for each in found)
    if request.header.api_version >= SEVERAL_SINCE:
        request.respond(FindCoordinatorResponse(coordinators=found), failed=failed)
        return
    (only,) = found
    request.respond(
        FindCoordinatorResponse(
            error_code=only.error_code,
            error_message=only.error_message,
            node_id=only.node_id,
            host=only.host,
            port=only.port,
        ),
        failed=failed,
    )
