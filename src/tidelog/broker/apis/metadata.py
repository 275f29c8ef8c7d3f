"""Metadata (3).

Behaviour: answered from the cache that the controller fills; before that no client is served (``server.py``).
A missing topic is created if the client and the broker allow it; the client gets LEADER_NOT_AVAILABLE and
asks again, or the reason why the topic cannot be created. A request that would create more than 10,000
partitions creates none (POLICY_VIOLATION). Replicas are offline if their broker is down or cannot use its
log. Since version 12 a topic may be asked for by its id; UNKNOWN_TOPIC_ID if there is none with it. Topics
have no ids under the rules ``hw`` and ``kip101``, nor until the controller has given them one.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.connection import Request
from tidelog.core.controller.topic_creation import PARTITIONS_PER_REQUEST_MAX, illegal_name
from tidelog.core.messages import PartitionAssignment
from tidelog.core.metadata_cache import MetadataCache
from tidelog.core.topic_ids import from_wire, to_wire
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.operations import ON_CLUSTER, ON_TOPIC
from tidelog.wire.schema import NO_UUID

if TYPE_CHECKING:
    from tidelog.broker.node import Node


IDS_SINCE = 12


class _Absent(Enum):
    """How to answer for a topic that does not exist."""

    UNKNOWN = auto()
    CREATED = auto()
    TOO_MANY = auto()


@serves(Api.METADATA)
def handle(node: Node, request: Request) -> Steps[None]:
    body: MetadataRequest = request.body
    cache = node.core.metadata
    asked = body.topics
    topics: list[MetadataResponseTopic] = []
    if asked is None or (not asked and request.header.api_version == 0):
        names = sorted(cache.topics)
    else:
        names = []
        for topic in asked:
            name = _name(cache, topic, request.header.api_version)
            if isinstance(name, ErrorCode):
                topics.append(_refused(topic, name))
            else:
                names.append(name)
            yield
    absent = _Absent.UNKNOWN
    if body.allow_auto_topic_creation and node.settings.auto_create_topics_enable:
        missing = yield from listed(name for name in names if name not in cache.topics)
        partitions = len(missing) * node.settings.num_partitions
        absent = _Absent.CREATED if partitions <= PARTITIONS_PER_REQUEST_MAX else _Absent.TOO_MANY
    for name in names:
        topics.append((yield from _topic(node, cache, name, absent)))
        if body.include_topic_authorized_operations:
            topics[-1].topic_authorized_operations = ON_TOPIC
        yield
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker, host=at.host, port=at.port, rack=at.rack)
            for broker, at in sorted(cache.endpoints.items())
        ],
        cluster_id=node.cluster_id,
        controller_id=node.core.known_controller,
        topics=topics,
    )
    if body.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ON_CLUSTER
    request.respond(response)


def _name(cache: MetadataCache, topic: MetadataRequestTopic, version: int) -> str | ErrorCode:
    if topic.topic_id == NO_UUID:
        return ErrorCode.INVALID_REQUEST if topic.name is None else topic.name
    if topic.name is not None or version < IDS_SINCE:
        return ErrorCode.INVALID_REQUEST
    return cache.topic_names.get(from_wire(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID)


def _refused(topic: MetadataRequestTopic, error: ErrorCode) -> MetadataResponseTopic:
    # Only a topic that was asked for by its id has no name in an answer: earlier versions need one.
    name = topic.name if error is ErrorCode.UNKNOWN_TOPIC_ID else topic.name or ""
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic.topic_id, partitions=[])


def _topic(node: Node, cache: MetadataCache, name: str, absent: _Absent) -> Steps[MetadataResponseTopic]:
    partitions = cache.topics.get(name)
    if partitions is not None:
        known = sorted(partitions.items())
        parts = yield from listed(_partition(cache, partition) for _, partition in known)
        topic_id = to_wire(cache.topic_id(name))
        return MetadataResponseTopic(
            name=name, topic_id=topic_id, partitions=parts, is_internal=name.startswith("__")
        )
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if illegal_name(name):
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif absent is _Absent.CREATED:
        error = node.create_topic(name)
    elif absent is _Absent.TOO_MANY:
        error = ErrorCode.POLICY_VIOLATION
    return MetadataResponseTopic(error_code=error, name=name, partitions=[])


def _partition(cache: MetadataCache, partition: PartitionAssignment) -> MetadataResponsePartition:
    state = partition.state
    live = cache.live_brokers
    led = state.leader in live
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.tp.partition,
        leader_id=state.leader if led else -1,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=[b for b in partition.replicas if b not in live or b in partition.offline],
    )
