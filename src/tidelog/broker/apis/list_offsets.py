"""ListOffsets (2): start or end of a partition, or its first record at or after a time.

Behaviour: the core checks leadership and returns the end of the log (for consumers the high watermark;
OFFSET_NOT_AVAILABLE while a new leader does not know it yet). A time is looked up in the time index and then
in the records of one batch; an unreadable log gets KAFKA_STORAGE_ERROR. For a batch that is too large to read
(``storage/log/keyed_records.py``) the answer is its first offset. Version 7 can ask for the record with the
largest timestamp (KIP-734).
Not done: version 0, which lists segments.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from tidelog.broker.apis import serves
from tidelog.broker.apis.gather import Gather
from tidelog.broker.connection import Request
from tidelog.core import messages as core
from tidelog.core.events import StorageFailed
from tidelog.core.log_port import StorageFailure
from tidelog.core.types import BrokerId, LeaderEpoch, TopicPartition
from tidelog.storage.background import Steps, StepsAndJobs
from tidelog.storage.log.file_log import FileLog
from tidelog.storage.log.timestamps import TimestampedOffset
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


@serves(Api.LIST_OFFSETS)
def handle(node: Node, request: Request) -> Steps[None]:
    body: ListOffsetsRequest = request.body
    topics: list[ListOffsetsTopicResponse] = []
    answered: list[_Answered] = []
    gather = Gather(lambda: request.respond_with(_answer(node, topics, answered)))
    for topic in body.topics:
        answer = ListOffsetsTopicResponse(name=topic.name, partitions=[])
        topics.append(answer)
        yield
        for part in topic.partitions:
            tp = TopicPartition(topic.name, part.partition_index)
            place = ListOffsetsPartitionResponse(partition_index=part.partition_index)
            answer.partitions.append(place)
            question = core.ListOffsetsRequest(
                tp=tp,
                replica=BrokerId(body.replica_id),
                current_leader_epoch=LeaderEpoch(part.current_leader_epoch),
            )
            gather.ask(node, question, partial(_note, answered, part, place))
            yield
    gather.asked_all()


class _Answered(NamedTuple):
    """A part of the request, its entry in the response, and the core's answer."""

    part: ListOffsetsPartition
    place: ListOffsetsPartitionResponse
    response: core.ListOffsetsResponse


def _note(
    answered: list[_Answered],
    part: ListOffsetsPartition,
    place: ListOffsetsPartitionResponse,
    response: core.ListOffsetsResponse,
) -> None:
    answered.append(_Answered(part, place, response))


def _answer(
    node: Node, topics: list[ListOffsetsTopicResponse], answered: list[_Answered]
) -> StepsAndJobs[ListOffsetsResponse]:
    for each in answered:
        yield from _fill(node, *each)
        yield None
    return ListOffsetsResponse(topics=topics)


def _fill(
    node: Node,
    part: ListOffsetsPartition,
    place: ListOffsetsPartitionResponse,
    response: core.ListOffsetsResponse,
) -> StepsAndJobs[None]:
    place.error_code = response.error
    if response.error is ErrorCode.OFFSET_NOT_AVAILABLE and part.timestamp != LATEST:
        place.error_code = ErrorCode.NONE
    if place.error_code:
        return
    replica = node.core.replicas.get(response.tp)
    if replica is None:
        place.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # deleted while the answer waited for a sync
        return
    if part.timestamp == LATEST:
        place.offset = response.offset
    elif part.timestamp == EARLIEST:
        place.offset = response.log_start_offset
    else:
        try:
            found = yield from _by_time(cast(FileLog, replica.log), part.timestamp)
        except StorageFailure as failure:
            node.observe(StorageFailed(node.id, response.tp, str(failure)))
            place.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return
        if found is not None and found.offset < replica.high_watermark:
            place.timestamp, place.offset = found
    if place.offset >= 0:
        place.leader_epoch = replica.log.epochs.epoch_at(place.offset)


def _by_time(log: FileLog, timestamp: int) -> StepsAndJobs[TimestampedOffset | None]:
    if timestamp == MAX_TIMESTAMP:
        return log.offset_of_max_timestamp()
    return log.offset_for_timestamp(timestamp)
