"""Messages between brokers: core messages to Kafka requests and back.

Each ``…_to_wire`` has its ``…_from_wire`` beside it, so that the two can be read together. The requests are
Kafka 2.7's, with two private tagged fields for KIP-903: the broker epoch of a follower in Fetch and those of
new members in AlterIsr. Responses of the core repeat parts of the request, which the wire does not; hence
``asked``. Requests of the controller may hold thousands of partitions, and are read in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tidelog.core import messages as core
from tidelog.core.types import (
    NO_BROKER_EPOCH,
    BrokerEndpoint,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    PartitionState,
    TopicPartition,
)
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.batch import split
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.messages import (
    alter_isr,
    controlled_shutdown,
    create_topics,
    fetch,
    leader_and_isr,
    list_offsets,
    offset_for_leader_epoch,
    relieve_replica,
    stop_replica,
    update_metadata,
    vote,
)

FETCH, FETCH_VERSION = Api.FETCH, 12
LATEST, EARLIEST = -1, -2
LISTENER = "PLAINTEXT"
CREATION_MS_MAX = 10_000
"""Shorter than the time-out of a silent peer: without its keeper the controller answers after this time."""
_KNOWN_CODES = frozenset(map(int, ErrorCode))


def by_topic(partitions: Iterable[tuple[TopicPartition, Any]]) -> dict[str, list[Any]]:
    """Group per-partition parts under their topics, in order of appearance."""
    topics: dict[str, list[Any]] = {}
    for tp, part in partitions:
        topics.setdefault(tp.topic, []).append(part)
    return topics


def request_to_wire(message: core.Message) -> tuple[int, int, Any]:
    """(API, version, body) of a request to another broker."""
    api, version, translate = _REQUESTS[type(message)]
    return api, version, translate(message)


def response_from_wire(asked: core.Message, body: Any) -> core.Message:
    """The answer to a request to another broker."""
    try:
        response: core.Message = _RESPONSES[type(asked)](asked, body)
    except (IndexError, ValueError):
        raise ProtocolError(f"an answer that does not fit its {type(asked).__name__}") from None
    return response


def _error(code: int) -> ErrorCode:
    """The error code; an unknown number of a later release counts as UNKNOWN_SERVER_ERROR."""
    return ErrorCode(code) if code in _KNOWN_CODES else ErrorCode.UNKNOWN_SERVER_ERROR


# ---------------------------------------------------------------- Fetch


def fetch_to_wire(requests: Iterable[core.FetchRequest], partition_bytes: int, response_bytes: int) -> Any:
    """All requests are from one follower to one leader: they differ only in partition, offset and epoch."""
    topics: dict[str, list[fetch.FetchPartition]] = {}
    for request in requests:
        part = fetch.FetchPartition(
            partition=request.tp.partition,
            current_leader_epoch=request.current_leader_epoch,
            fetch_offset=request.offset,
            log_start_offset=request.log_start_offset,
            partition_max_bytes=partition_bytes,
        )
        topics.setdefault(request.tp.topic, []).append(part)
    return fetch.FetchRequest(
        replica_id=request.replica,
        replica_epoch=request.broker_epoch,
        max_wait_ms=request.max_wait_ms,
        min_bytes=1,
        max_bytes=response_bytes,
        topics=[fetch.FetchTopic(topic=name, partitions=parts) for name, parts in topics.items()],
    )


def fetch_of_nothing(replica: BrokerId) -> Any:
    """An empty fetch: makes the leader answer the waiting request on this connection."""
    return fetch.FetchRequest(replica_id=replica, max_wait_ms=0, min_bytes=0, topics=[])


def fetch_from_wire(
    asked: Mapping[TopicPartition, core.FetchRequest], body: fetch.FetchResponse
) -> Iterator[core.FetchResponse]:
    for topic in body.responses:
        for data in topic.partitions:
            request = asked.get(TopicPartition(topic.topic, data.partition_index))
            if request is None:
                continue
            yield core.FetchResponse(
                request.tp,
                _error(data.error_code),
                request.offset,
                request.current_leader_epoch,
                data.high_watermark,
                split(data.records) if data.records else (),
                data.log_start_offset,
            )


# ---------------------------------------------------------------- OffsetForLeaderEpoch and ListOffsets


def _epoch_end_to_wire(request: core.EpochEndRequest) -> Any:
    part = offset_for_leader_epoch.OffsetForLeaderPartition(
        partition=request.tp.partition,
        current_leader_epoch=request.current_leader_epoch,
        leader_epoch=request.asked_epoch,
    )
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=request.tp.topic, partitions=[part])
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=request.replica, topics=[topic])


def _epoch_end_from_wire(asked: core.EpochEndRequest, body: Any) -> core.EpochEndResponse:
    part = body.topics[0].partitions[0]
    return core.EpochEndResponse(
        tp=asked.tp,
        error=_error(part.error_code),
        current_leader_epoch=asked.current_leader_epoch,
        asked_epoch=asked.asked_epoch,
        epoch=part.leader_epoch,
        end_offset=part.end_offset,
    )


def _list_offsets_to_wire(request: core.ListOffsetsRequest) -> Any:
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


def _list_offsets_from_wire(asked: core.ListOffsetsRequest, body: Any) -> core.ListOffsetsResponse:
    end, start = (topic.partitions[0] for topic in body.topics)
    error = _error(end.error_code or start.error_code)
    return core.ListOffsetsResponse(
        tp=asked.tp,
        error=error,
        current_leader_epoch=asked.current_leader_epoch,
        offset=end.offset,
        log_start_offset=start.offset,
    )


# ---------------------------------------------------------------- the controller's requests


def _leader_and_isr_to_wire(request: core.LeaderAndIsrRequest) -> Any:
    topics = by_topic(
        (
            partition.tp,
            leader_and_isr.LeaderAndIsrPartitionState(
                partition_index=partition.tp.partition,
                controller_epoch=partition.state.controller_epoch,
                leader=partition.state.leader,
                leader_epoch=partition.state.leader_epoch,
                isr=list(partition.state.isr),
                zk_version=partition.state.version,
                replicas=list(partition.replicas),
            ),
        )
        for partition in request.partitions
    )
    return leader_and_isr.LeaderAndIsrRequest(
        controller_id=request.controller,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            leader_and_isr.LeaderAndIsrTopicState(topic_name=name, partition_states=parts)
            for name, parts in topics.items()
        ],
        live_leaders=[],
    )


def leader_and_isr_from_wire(body: Any) -> Steps[core.LeaderAndIsrRequest]:
    parts: list[core.PartitionAssignment] = []
    for topic in body.topic_states:
        parts += yield from listed(_assignment_from_wire(topic, part) for part in topic.partition_states)
        yield
    return core.LeaderAndIsrRequest(**_control_header(body), partitions=tuple(parts))


def _update_metadata_to_wire(request: core.UpdateMetadataRequest) -> Any:
    topics = by_topic(
        (
            partition.tp,
            update_metadata.UpdateMetadataPartitionState(
                partition_index=partition.tp.partition,
                controller_epoch=partition.state.controller_epoch,
                leader=partition.state.leader,
                leader_epoch=partition.state.leader_epoch,
                isr=list(partition.state.isr),
                zk_version=partition.state.version,
                replicas=list(partition.replicas),
                offline_replicas=list(partition.offline),
            ),
        )
        for partition in request.partitions
    )
    brokers = [
        update_metadata.UpdateMetadataBroker(
            id=broker,
            endpoints=[
                update_metadata.UpdateMetadataEndpoint(
                    port=endpoint.port, host=endpoint.host, listener=LISTENER, security_protocol=0
                )
            ],
            rack=endpoint.rack,
        )
        for broker, endpoint in request.endpoints.items()
    ]
    return update_metadata.UpdateMetadataRequest(
        controller_id=request.controller,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            update_metadata.UpdateMetadataTopicState(topic_name=name, partition_states=parts)
            for name, parts in topics.items()
        ],
        live_brokers=brokers,
    )


def update_metadata_from_wire(body: Any) -> Steps[core.UpdateMetadataRequest]:
    """The wire does not carry the epochs of live brokers; only the controller needs them."""
    endpoints: dict[BrokerId, BrokerEndpoint] = {}
    for broker in body.live_brokers:
        for endpoint in broker.endpoints[:1]:
            endpoints[BrokerId(broker.id)] = BrokerEndpoint(endpoint.host, endpoint.port, broker.rack)
        yield
    parts: list[core.PartitionAssignment] = []
    for topic in body.topic_states:
        parts += yield from listed(
            _assignment_from_wire(topic, part, part.offline_replicas) for part in topic.partition_states
        )
        yield
    return core.UpdateMetadataRequest(
        **_control_header(body),
        live_brokers=dict.fromkeys(endpoints, NO_BROKER_EPOCH),
        endpoints=endpoints,
        partitions=tuple(parts),
    )


def _stop_replica_to_wire(request: core.StopReplicaRequest) -> Any:
    topics = by_topic(
        (
            tp,
            stop_replica.StopReplicaPartitionState(
                partition_index=tp.partition, leader_epoch=-1, delete_partition=request.delete
            ),
        )
        for tp in request.partitions
    )
    return stop_replica.StopReplicaRequest(
        controller_id=request.controller,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            stop_replica.StopReplicaTopicState(topic_name=name, partition_states=parts)
            for name, parts in topics.items()
        ],
    )


def stop_replica_from_wire(body: Any) -> Steps[core.StopReplicaRequest]:
    tps: list[TopicPartition] = []
    delete = False
    for topic in body.topic_states:
        yield
        for part in topic.partition_states:
            tps.append(TopicPartition(topic.topic_name, part.partition_index))
            delete = delete or part.delete_partition
            yield
    return core.StopReplicaRequest(**_control_header(body), partitions=tuple(tps), delete=delete)


def _vote_to_wire(request: core.VoteRequest) -> Any:
    return vote.VoteRequest(
        controller_id=request.controller,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_name=request.tp.topic,
        partition_index=request.tp.partition,
        leader_epoch=request.leader_epoch,
    )


def vote_from_wire(body: Any) -> core.VoteRequest:
    tp = TopicPartition(body.topic_name, body.partition_index)
    return core.VoteRequest(**_control_header(body), tp=tp, leader_epoch=body.leader_epoch)


def _vote_answer_from_wire(asked: core.VoteRequest, body: Any) -> core.VoteResponse:
    return core.VoteResponse(
        request_id=asked.request_id,
        tp=asked.tp,
        error=_error(body.error_code),
        leader_epoch=body.leader_epoch,
        last_epoch=body.last_epoch,
        end_offset=body.end_offset,
    )


def _control_header(body: Any) -> core.ControlHeader:
    """The connection matches answers with requests, so the request needs no id."""
    return {
        "controller": BrokerId(body.controller_id),
        "controller_epoch": ControllerEpoch(body.controller_epoch),
        "broker_epoch": BrokerEpoch(body.broker_epoch),
        "request_id": 0,
    }


def _assignment_from_wire(topic: Any, part: Any, offline: Iterable[int] = ()) -> core.PartitionAssignment:
    state = PartitionState(
        BrokerId(part.leader),
        part.leader_epoch,
        tuple(map(BrokerId, part.isr)),
        part.controller_epoch,
        part.zk_version,
    )
    replicas = tuple(map(BrokerId, part.replicas))
    tp = TopicPartition(topic.topic_name, part.partition_index)
    return core.PartitionAssignment(
        tp=tp, replicas=replicas, state=state, offline=tuple(map(BrokerId, offline))
    )


def partition_errors_to_wire(errors: core.PartitionErrors, wire_type: Callable[..., Any]) -> list[Any]:
    """For LeaderAndIsr and StopReplica, which have different types with the same three fields."""
    return [
        wire_type(topic_name=tp.topic, partition_index=tp.partition, error_code=error)
        for tp, error in errors.items()
    ]


def _partition_errors_from_wire(asked: core.ControlRequest, body: Any) -> core.ControlResponse:
    """A partition that is not listed, or listed without an error, succeeded."""
    errors = {
        TopicPartition(part.topic_name, part.partition_index): _error(part.error_code)
        for part in body.partition_errors
        if part.error_code
    }
    return core.ControlResponse(
        request_id=asked.request_id, error=_error(body.error_code), partition_errors=errors
    )


def _update_metadata_answer_from_wire(asked: core.ControlRequest, body: Any) -> core.ControlResponse:
    return core.ControlResponse(request_id=asked.request_id, error=_error(body.error_code))


# ---------------------------------------------------------------- requests to the controller


def _alter_isr_to_wire(request: core.AlterIsrRequest) -> Any:
    part = alter_isr.PartitionData(
        partition_index=request.tp.partition,
        leader_epoch=request.leader_epoch,
        new_isr=list(request.isr),
        current_isr_version=request.version,
        new_isr_epochs=list(request.member_epochs),
    )
    topic = alter_isr.TopicData(name=request.tp.topic, partitions=[part])
    return alter_isr.AlterIsrRequest(
        broker_id=request.broker, broker_epoch=request.broker_epoch, topics=[topic]
    )


def alter_isr_from_wire(body: Any) -> Steps[list[core.AlterIsrRequest]]:
    requests: list[core.AlterIsrRequest] = []
    for topic in body.topics:
        requests += yield from listed(
            core.AlterIsrRequest(
                tp=TopicPartition(topic.name, part.partition_index),
                broker=BrokerId(body.broker_id),
                broker_epoch=body.broker_epoch,
                leader_epoch=part.leader_epoch,
                isr=tuple(map(BrokerId, part.new_isr)),
                version=part.current_isr_version,
                member_epochs=tuple(part.new_isr_epochs),
            )
            for part in topic.partitions
        )
        yield
    return requests


def _alter_isr_answer_from_wire(asked: core.AlterIsrRequest, body: Any) -> core.AlterIsrResponse:
    response = core.AlterIsrResponse(
        tp=asked.tp,
        error=_error(body.error_code),
        leader_epoch=asked.leader_epoch,
        requested_version=asked.version,
    )
    if body.topics:
        part = body.topics[0].partitions[0]
        response.error = _error(part.error_code)
        response.isr, response.version = tuple(map(BrokerId, part.isr)), part.current_isr_version
    return response


def _relieve_replica_to_wire(request: core.RelieveReplicaRequest) -> Any:
    return relieve_replica.RelieveReplicaRequest(
        broker_id=request.broker,
        broker_epoch=request.broker_epoch,
        topic_name=request.tp.topic,
        partition_index=request.tp.partition,
        leader_epoch=request.leader_epoch,
    )


def relieve_replica_from_wire(body: Any) -> core.RelieveReplicaRequest:
    tp = TopicPartition(body.topic_name, body.partition_index)
    return core.RelieveReplicaRequest(
        tp=tp, broker=BrokerId(body.broker_id), broker_epoch=body.broker_epoch, leader_epoch=body.leader_epoch
    )


def _relieve_replica_answer_from_wire(
    asked: core.RelieveReplicaRequest, body: Any
) -> core.RelieveReplicaResponse:
    return core.RelieveReplicaResponse(tp=asked.tp, error=ErrorCode(body.error_code))


def _controlled_shutdown_to_wire(request: core.ControlledShutdownRequest) -> Any:
    return controlled_shutdown.ControlledShutdownRequest(
        broker_id=request.broker, broker_epoch=request.broker_epoch
    )


def _controlled_shutdown_from_wire(
    _asked: core.ControlledShutdownRequest, body: Any
) -> core.ControlledShutdownResponse:
    remaining = tuple(TopicPartition(p.topic_name, p.partition_index) for p in body.remaining_partitions)
    return core.ControlledShutdownResponse(error=_error(body.error_code), remaining=remaining)


def _create_topic_to_wire(request: core.CreateTopicRequest) -> Any:
    topic = create_topics.CreatableTopic(
        name=request.topic,
        num_partitions=request.partitions,
        replication_factor=request.replication_factor,
        assignments=[
            create_topics.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
            for partition, replicas in (request.assignment or {}).items()
        ],
        configs=[
            create_topics.CreatableTopicConfig(name=name, value=value)
            for name, value in request.config.items()
        ],
    )
    return create_topics.CreateTopicsRequest(
        topics=[topic], validate_only=request.validate_only, timeout_ms=CREATION_MS_MAX
    )


def _create_topic_from_wire(asked: core.CreateTopicRequest, body: Any) -> core.CreateTopicResponse:
    result = body.topics[0]
    return core.CreateTopicResponse(
        topic=asked.topic, error=_error(result.error_code), message=result.error_message
    )


_REQUESTS: dict[type, tuple[int, int, Any]] = {
    core.EpochEndRequest: (Api.OFFSET_FOR_LEADER_EPOCH, 3, _epoch_end_to_wire),
    core.ListOffsetsRequest: (Api.LIST_OFFSETS, 5, _list_offsets_to_wire),
    core.LeaderAndIsrRequest: (Api.LEADER_AND_ISR, 4, _leader_and_isr_to_wire),
    core.UpdateMetadataRequest: (Api.UPDATE_METADATA, 6, _update_metadata_to_wire),
    core.StopReplicaRequest: (Api.STOP_REPLICA, 3, _stop_replica_to_wire),
    core.VoteRequest: (Api.VOTE, 0, _vote_to_wire),
    core.AlterIsrRequest: (Api.ALTER_ISR, 0, _alter_isr_to_wire),
    core.RelieveReplicaRequest: (Api.RELIEVE_REPLICA, 0, _relieve_replica_to_wire),
    core.CreateTopicRequest: (Api.CREATE_TOPICS, 4, _create_topic_to_wire),
    core.ControlledShutdownRequest: (Api.CONTROLLED_SHUTDOWN, 3, _controlled_shutdown_to_wire),
}

_RESPONSES: dict[type, Any] = {
    core.EpochEndRequest: _epoch_end_from_wire,
    core.ListOffsetsRequest: _list_offsets_from_wire,
    core.LeaderAndIsrRequest: _partition_errors_from_wire,
    core.UpdateMetadataRequest: _update_metadata_answer_from_wire,
    core.StopReplicaRequest: _partition_errors_from_wire,
    core.VoteRequest: _vote_answer_from_wire,
    core.AlterIsrRequest: _alter_isr_answer_from_wire,
    core.RelieveReplicaRequest: _relieve_replica_answer_from_wire,
    core.CreateTopicRequest: _create_topic_from_wire,
    core.ControlledShutdownRequest: _controlled_shutdown_from_wire,
}
