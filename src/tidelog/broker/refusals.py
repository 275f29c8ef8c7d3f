"""Answers with an error, for tests of clients: to a request that was not carried out, or was.

An answer to a request that changes something and was not carried out is made here, one function for each such
API. Requests that only read are carried out either way, and their answers get the error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, Final

from tidelog.wire.api import Api
from tidelog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from tidelog.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.messages.heartbeat import HeartbeatResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdResponse
from tidelog.wire.messages.join_group import JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tidelog.wire.messages.sync_group import SyncGroupResponse


def _produce(body: Any) -> Any:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(index=data.index) for data in topic.partition_data
                ],
            )
            for topic in body.topic_data
        ]
    )


def _offset_commit(body: Any) -> Any:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=part.partition_index)
                    for part in topic.partitions
                ],
            )
            for topic in body.topics
        ]
    )


def _create_topics(body: Any) -> Any:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name) for topic in body.topics])


def _delete_topics(body: Any) -> Any:
    topics = body.topics or [DeleteTopicState(name=name) for name in body.topic_names]
    results = [DeletableTopicResult(name=topic.name, topic_id=topic.topic_id) for topic in topics]
    return DeleteTopicsResponse(responses=results)


CHANGES: Final[dict[Api, Callable[[Any], Any]]] = {
    Api.PRODUCE: _produce,
    Api.OFFSET_COMMIT: _offset_commit,
    Api.JOIN_GROUP: lambda body: JoinGroupResponse(
        protocol_name="", leader="", member_id=body.member_id, members=[]
    ),
    Api.SYNC_GROUP: lambda body: SyncGroupResponse(assignment=b""),
    Api.HEARTBEAT: lambda body: HeartbeatResponse(),
    Api.LEAVE_GROUP: lambda body: LeaveGroupResponse(),
    Api.INIT_PRODUCER_ID: lambda body: InitProducerIdResponse(producer_epoch=-1),
    Api.CREATE_TOPICS: _create_topics,
    Api.DELETE_TOPICS: _delete_topics,
}
"""The answer to a request that was not carried out, before it gets its error."""

READS: Final = frozenset(
    (
        Api.FETCH,
        Api.LIST_OFFSETS,
        Api.METADATA,
        Api.OFFSET_FETCH,
        Api.FIND_COORDINATOR,
        Api.DESCRIBE_GROUPS,
        Api.LIST_GROUPS,
        Api.DESCRIBE_CONFIGS,
        Api.OFFSET_FOR_LEADER_EPOCH,
    )
)
FAILABLE: Final = tuple(sorted((*CHANGES, *READS)))


def with_error(body: Any, code: int) -> Any:
    """The same answer, with this error wherever it can have one, and without what an error goes without."""
    if isinstance(body, list):
        for each in body:
            with_error(each, code)
    elif is_dataclass(type(body)):
        names = {field.name for field in fields(body)}
        for name in names:
            value = getattr(body, name)
            if isinstance(value, list) or is_dataclass(type(value)):
                with_error(value, code)
        if "error_code" in names:
            body.error_code = code
            if "base_offset" in names:
                body.base_offset = -1
            if "records" in names:
                body.records = None
    return body
