"""DescribeTopicPartitions (75).

Behaviour: answered from the metadata cache, topics in alphabetical order. A response holds at
most ``response_partition_limit`` partitions, and never more than 2,000; ``next_cursor`` names the next one.
Under the rules ``elr`` with the eligible leader replicas and the last known leader of each partition;
otherwise these lists are empty, never null: Kafka's brokers send no null, and the Java client cannot read it.
A partition without a leader has leader -1 and, as in Kafka, no error. A topic that was asked for and does
not exist gets UNKNOWN_TOPIC_OR_PARTITION. A limit below 1 or a negative partition is
INVALID_REQUEST for every topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.apis import serves
from tidelog.broker.connection import Request
from tidelog.core.controller.topic_creation import illegal_name
from tidelog.core.messages import PartitionAssignment
from tidelog.core.metadata_cache import MetadataCache
from tidelog.core.topic_ids import to_wire
from tidelog.storage.background import Steps
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from tidelog.wire.operations import ON_TOPIC

if TYPE_CHECKING:
    from tidelog.broker.node import Node

PARTITIONS_MAX = 2_000
"""Kafka's ``max.request.partition.size.limit``."""


@serves(Api.DESCRIBE_TOPIC_PARTITIONS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: DescribeTopicPartitionsRequest = request.body
    cache = node.core.metadata
    first = body.cursor or Cursor(topic_name="", partition_index=0)
    response = DescribeTopicPartitionsResponse(topics=[])
    invalid = body.response_partition_limit < 1 or first.partition_index < 0
    wanted: dict[str, None] = {}
    for topic in body.topics:
        wanted[topic.name] = None
        yield
    names = sorted(name for name in (wanted or cache.topics) if name >= first.topic_name)
    yield
    left = min(body.response_partition_limit, PARTITIONS_MAX)
    tracked = node.core.ctx.generation.tracks_eligible_leaders
    for name in names:
        if invalid:
            response.topics.append(_refused(name, ErrorCode.INVALID_REQUEST))
            yield
            continue
        if name not in cache.topics:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if illegal_name(name):
                error = ErrorCode.INVALID_TOPIC_EXCEPTION
            response.topics.append(_refused(name, error))
            yield
            continue
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        start = first.partition_index if name == first.topic_name else 0
        known = sorted(number for number in cache.topics[name] if number >= start)
        answer = DescribeTopicPartitionsResponseTopic(
            name=name,
            topic_id=to_wire(cache.topic_id(name)),
            is_internal=name.startswith("__"),
            partitions=[],
            topic_authorized_operations=ON_TOPIC,
        )
        response.topics.append(answer)
        for number in known[:left]:
            answer.partitions.append(described(cache, cache.topics[name][number], tracked=tracked))
            yield
        if len(known) > left:
            response.next_cursor = Cursor(topic_name=name, partition_index=known[left])
            break
        left -= len(known)
    request.respond(response)


def _refused(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=error, name=name, partitions=[])


def described(
    cache: MetadataCache, partition: PartitionAssignment, *, tracked: bool
) -> DescribeTopicPartitionsResponsePartition:
    state, live = partition.state, cache.live_brokers
    return DescribeTopicPartitionsResponsePartition(
        partition_index=partition.tp.partition,
        leader_id=state.leader if state.leader in live else -1,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.elr) if tracked else [],
        last_known_elr=list(state.last_known_elr) if tracked else [],
        offline_replicas=[b for b in partition.replicas if b not in live or b in partition.offline],
    )
