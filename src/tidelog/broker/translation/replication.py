"""A follower's requests to its leader: Fetch, OffsetForLeaderEpoch and ListOffsets.

Fetch is not a row of the table: one request asks for many partitions, and the answers come one by one. Its
version is Kafka 2.7's, with the follower's broker epoch (KIP-903) and the ids of topics in private tagged
fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidelog.broker.translation.exchange import Exchange, by_topic, error_of
from tidelog.core import messages as core
from tidelog.core import topic_ids
from tidelog.core.types import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from tidelog.wire.api import Api
from tidelog.wire.batch import split
from tidelog.wire.messages import (
    fetch,
    list_offsets,
    offset_for_leader_epoch,
)
from tidelog.wire.one_partition import FetchedOne
from tidelog.wire.schema import NO_UUID

FETCH, FETCH_VERSION = Api.FETCH, 12
LATEST, EARLIEST = -1, -2


# ---------------------------------------------------------------- Fetch


def fetch_header(
    replica: BrokerId, broker_epoch: BrokerEpoch, max_wait_ms: int, max_bytes: int
) -> fetch.FetchRequest:
    """A fetch that names no partition yet."""
    return fetch.FetchRequest(
        replica_id=replica,
        replica_epoch=broker_epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[],
    )


def named_partitions(
    requests: Iterable[core.FetchRequest], partition_bytes: int, ids: Mapping[str, TopicId]
) -> list[fetch.FetchTopic]:
    """All requests are from one follower to one leader: they differ only in partition, offset and epoch.
    ``ids`` are of the topics whose id the session does not have yet."""
    topics: dict[str, fetch.FetchTopic] = {}
    for request in requests:
        part = fetch.FetchPartition(
            partition=request.tp.partition,
            current_leader_epoch=request.current_leader_epoch,
            fetch_offset=request.offset,
            log_start_offset=request.log_start_offset,
            partition_max_bytes=partition_bytes,
        )
        name = request.tp.topic
        topic = topics.get(name)
        if topic is None:
            followed = topic_ids.to_wire(ids[name]) if name in ids else NO_UUID
            topic = topics[name] = fetch.FetchTopic(topic=name, partitions=[], followed_topic_id=followed)
        topic.partitions.append(part)
    return list(topics.values())


def forgotten_partitions(partitions: Iterable[TopicPartition]) -> list[fetch.ForgottenTopic]:
    topics = by_topic((tp, tp.partition) for tp in partitions)
    return [fetch.ForgottenTopic(topic=name, partitions=numbers) for name, numbers in topics.items()]


def fetch_of_nothing(replica: BrokerId) -> fetch.FetchRequest:
    """An empty fetch: makes the leader answer the waiting request on this connection."""
    return fetch.FetchRequest(replica_id=replica, max_wait_ms=0, min_bytes=0, topics=[])


def fetch_from_wire(
    former: Mapping[TopicPartition, core.FetchRequest],
    asked: Mapping[TopicPartition, core.FetchRequest],
    body: fetch.FetchResponse,
) -> Iterator[core.FetchResponse]:
    """``former`` is what the request asked where that is not what is ``asked`` now."""
    for topic in body.responses:
        for data in topic.partitions:
            tp = TopicPartition(topic.topic, data.partition_index)
            request = former.get(tp) or asked.get(tp)
            if request is None:
                continue
            yield core.FetchResponse(
                request.tp,
                error_of(data.error_code),
                request.offset,
                request.current_leader_epoch,
                data.high_watermark,
                split(data.records) if data.records else (),
                data.log_start_offset,
            )


def fetched_from_wire(request: core.FetchRequest, body: FetchedOne) -> core.FetchResponse:
    """``fetch_from_wire`` of an answer for one partition."""
    records = body.records
    return core.FetchResponse(
        request.tp,
        core.NO_ERROR,
        request.offset,
        request.current_leader_epoch,
        body.high_watermark,
        split(records) if records else (),
        body.log_start_offset,
    )


# ---------------------------------------------------------------- OffsetForLeaderEpoch and ListOffsets


def _epoch_end_to_wire(request: core.EpochEndRequest) -> offset_for_leader_epoch.OffsetForLeaderEpochRequest:
    part = offset_for_leader_epoch.OffsetForLeaderPartition(
        partition=request.tp.partition,
        current_leader_epoch=request.current_leader_epoch,
        leader_epoch=request.asked_epoch,
    )
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=request.tp.topic, partitions=[part])
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=request.replica, topics=[topic])


def _epoch_end_from_wire(
    asked: core.EpochEndRequest, body: offset_for_leader_epoch.OffsetForLeaderEpochResponse
) -> core.EpochEndResponse:
    part = body.topics[0].partitions[0]
    return core.EpochEndResponse(
        tp=asked.tp,
        error=error_of(part.error_code),
        current_leader_epoch=asked.current_leader_epoch,
        asked_epoch=asked.asked_epoch,
        epoch=LeaderEpoch(part.leader_epoch),
        end_offset=part.end_offset,
    )


def _list_offsets_to_wire(request: core.ListOffsetsRequest) -> list_offsets.ListOffsetsRequest:
    """Ask for the end and the start of the leader's log, in this order."""
    topics = [
        list_offsets.ListOffsetsTopic(
            name=request.tp.topic,
            partitions=[
                list_offsets.ListOffsetsPartition(
                    partition_index=request.tp.partition,
                    current_leader_epoch=request.current_leader_epoch,
                    timestamp=timestamp,
                )
            ],
        )
        for timestamp in (LATEST, EARLIEST)
    ]
    return list_offsets.ListOffsetsRequest(replica_id=request.replica, topics=topics)


def _list_offsets_from_wire(
    asked: core.ListOffsetsRequest, body: list_offsets.ListOffsetsResponse
) -> core.ListOffsetsResponse:
    end, start = (topic.partitions[0] for topic in body.topics)
    error = error_of(end.error_code or start.error_code)
    return core.ListOffsetsResponse(
        tp=asked.tp,
        error=error,
        current_leader_epoch=asked.current_leader_epoch,
        offset=end.offset,
        log_start_offset=start.offset,
    )


EXCHANGES = (
    Exchange(core.EpochEndRequest, Api.OFFSET_FOR_LEADER_EPOCH, 3, _epoch_end_to_wire, _epoch_end_from_wire),
    Exchange(core.ListOffsetsRequest, Api.LIST_OFFSETS, 5, _list_offsets_to_wire, _list_offsets_from_wire),
)
