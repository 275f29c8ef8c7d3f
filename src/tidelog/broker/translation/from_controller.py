"""The controller's requests: LeaderAndIsr, UpdateMetadata, StopReplica, and the vote of the majority rules.

Each ``…_to_wire`` has its ``…_from_wire`` beside it, so that the two can be read together. A request may hold
thousands of partitions, so it is read in steps. LeaderAndIsr has private tagged fields for topic ids,
UpdateMetadata for them and for KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from tidelog.broker.translation.exchange import Exchange, by_topic, error_of
from tidelog.core import messages as core
from tidelog.core import topic_ids
from tidelog.core.assignments import Reassignment
from tidelog.core.types import (
    NO_BROKER_EPOCH,
    BrokerEndpoint,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicId,
    TopicPartition,
)
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.messages import (
    leader_and_isr,
    stop_replica,
    update_metadata,
    vote,
)

LISTENER = "PLAINTEXT"
WireError = TypeVar("WireError")

_ControllerRequest = (
    leader_and_isr.LeaderAndIsrRequest
    | update_metadata.UpdateMetadataRequest
    | stop_replica.StopReplicaRequest
    | vote.VoteRequest
)
_PartitionState = leader_and_isr.LeaderAndIsrPartitionState | update_metadata.UpdateMetadataPartitionState


def _leader_and_isr_to_wire(request: core.LeaderAndIsrRequest) -> leader_and_isr.LeaderAndIsrRequest:
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
                adding_replicas=list(partition.move.adding),
                removing_replicas=list(partition.move.removing),
            ),
        )
        for partition in request.partitions
    )
    ids = _topic_ids(request.partitions)
    return leader_and_isr.LeaderAndIsrRequest(
        controller_id=request.controller,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            leader_and_isr.LeaderAndIsrTopicState(
                topic_name=name, partition_states=parts, topic_id=topic_ids.to_wire(ids[name])
            )
            for name, parts in topics.items()
        ],
        live_leaders=[],
    )


def leader_and_isr_from_wire(body: leader_and_isr.LeaderAndIsrRequest) -> Steps[core.LeaderAndIsrRequest]:
    parts: list[core.PartitionAssignment] = []
    for topic in body.topic_states:
        topic_id = topic_ids.from_wire(topic.topic_id)
        parts += yield from listed(
            replace(
                _assignment_from_wire(topic.topic_name, topic_id, part),
                move=Reassignment(
                    tuple(map(BrokerId, part.adding_replicas)), tuple(map(BrokerId, part.removing_replicas))
                ),
            )
            if part.adding_replicas or part.removing_replicas
            else _assignment_from_wire(topic.topic_name, topic_id, part)
            for part in topic.partition_states
        )
        yield
    return core.LeaderAndIsrRequest(**_control_header(body), partitions=tuple(parts))


def _update_metadata_to_wire(request: core.UpdateMetadataRequest) -> update_metadata.UpdateMetadataRequest:
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
                eligible_leader_replicas=list(partition.state.elr),
                last_known_elr=list(partition.state.last_known_elr),
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
    ids = _topic_ids(request.partitions)
    return update_metadata.UpdateMetadataRequest(
        controller_id=request.controller,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            update_metadata.UpdateMetadataTopicState(
                topic_name=name, partition_states=parts, topic_id=topic_ids.to_wire(ids[name])
            )
            for name, parts in topics.items()
        ],
        live_brokers=brokers,
    )


def update_metadata_from_wire(
    body: update_metadata.UpdateMetadataRequest,
) -> Steps[core.UpdateMetadataRequest]:
    """The wire does not carry the epochs of live brokers; only the controller needs them."""
    endpoints: dict[BrokerId, BrokerEndpoint] = {}
    for broker in body.live_brokers:
        for endpoint in broker.endpoints[:1]:
            endpoints[BrokerId(broker.id)] = BrokerEndpoint(endpoint.host, endpoint.port, broker.rack)
        yield
    parts: list[core.PartitionAssignment] = []
    for topic in body.topic_states:
        topic_id = topic_ids.from_wire(topic.topic_id)
        parts += yield from listed(
            _assignment_from_wire(
                topic.topic_name,
                topic_id,
                part,
                part.offline_replicas,
                elr=part.eligible_leader_replicas,
                last_known_elr=part.last_known_elr,
            )
            for part in topic.partition_states
        )
        yield
    return core.UpdateMetadataRequest(
        **_control_header(body),
        live_brokers=dict.fromkeys(endpoints, NO_BROKER_EPOCH),
        endpoints=endpoints,
        partitions=tuple(parts),
    )


def _stop_replica_to_wire(request: core.StopReplicaRequest) -> stop_replica.StopReplicaRequest:
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


def stop_replica_from_wire(body: stop_replica.StopReplicaRequest) -> Steps[core.StopReplicaRequest]:
    tps: list[TopicPartition] = []
    delete = False
    for topic in body.topic_states:
        yield
        for part in topic.partition_states:
            tps.append(TopicPartition(topic.topic_name, part.partition_index))
            delete = delete or part.delete_partition
            yield
    return core.StopReplicaRequest(**_control_header(body), partitions=tuple(tps), delete=delete)


def _vote_to_wire(request: core.VoteRequest) -> vote.VoteRequest:
    return vote.VoteRequest(
        controller_id=request.controller,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_name=request.tp.topic,
        partition_index=request.tp.partition,
        leader_epoch=request.leader_epoch,
    )


def vote_from_wire(body: vote.VoteRequest) -> core.VoteRequest:
    tp = TopicPartition(body.topic_name, body.partition_index)
    return core.VoteRequest(**_control_header(body), tp=tp, leader_epoch=LeaderEpoch(body.leader_epoch))


def _vote_answer_from_wire(asked: core.VoteRequest, body: vote.VoteResponse) -> core.VoteResponse:
    return core.VoteResponse(
        request_id=asked.request_id,
        tp=asked.tp,
        error=error_of(body.error_code),
        leader_epoch=LeaderEpoch(body.leader_epoch),
        last_epoch=LeaderEpoch(body.last_epoch),
        end_offset=body.end_offset,
    )


def _control_header(body: _ControllerRequest) -> core.ControlHeader:
    """The connection matches answers with requests, so the request needs no id."""
    return {
        "controller": BrokerId(body.controller_id),
        "controller_epoch": ControllerEpoch(body.controller_epoch),
        "broker_epoch": BrokerEpoch(body.broker_epoch),
        "request_id": 0,
    }


def _topic_ids(partitions: Iterable[core.PartitionAssignment]) -> dict[str, TopicId]:
    return {partition.tp.topic: partition.topic_id for partition in partitions}


def _assignment_from_wire(
    topic: str,
    topic_id: TopicId,
    part: _PartitionState,
    offline: Iterable[int] = (),
    *,
    elr: Iterable[int] = (),
    last_known_elr: Iterable[int] = (),
) -> core.PartitionAssignment:
    state = PartitionState(
        BrokerId(part.leader),
        LeaderEpoch(part.leader_epoch),
        tuple(map(BrokerId, part.isr)),
        ControllerEpoch(part.controller_epoch),
        part.zk_version,
        tuple(map(BrokerId, elr)),
        tuple(map(BrokerId, last_known_elr)),
    )
    replicas = tuple(map(BrokerId, part.replicas))
    tp = TopicPartition(topic, part.partition_index)
    return core.PartitionAssignment(
        tp=tp,
        replicas=replicas,
        state=state,
        offline=tuple(map(BrokerId, offline)),
        topic_id=topic_id,
    )


def partition_errors_to_wire(
    errors: core.PartitionErrors, wire_type: Callable[..., WireError]
) -> list[WireError]:
    """For LeaderAndIsr and StopReplica, which have different types with the same three fields."""
    return [
        wire_type(topic_name=tp.topic, partition_index=tp.partition, error_code=error)
        for tp, error in errors.items()
    ]


def _partition_errors_from_wire(
    asked: core.ControlRequest, body: leader_and_isr.LeaderAndIsrResponse | stop_replica.StopReplicaResponse
) -> core.ControlResponse:
    """A partition that is not listed, or listed without an error, succeeded."""
    errors = {
        TopicPartition(part.topic_name, part.partition_index): error_of(part.error_code)
        for part in body.partition_errors
        if part.error_code
    }
    return core.ControlResponse(
        request_id=asked.request_id, error=error_of(body.error_code), partition_errors=errors
    )


def _update_metadata_answer_from_wire(
    asked: core.ControlRequest, body: update_metadata.UpdateMetadataResponse
) -> core.ControlResponse:
    return core.ControlResponse(request_id=asked.request_id, error=error_of(body.error_code))


EXCHANGES = (
    Exchange(
        core.LeaderAndIsrRequest, Api.LEADER_AND_ISR, 4, _leader_and_isr_to_wire, _partition_errors_from_wire
    ),
    Exchange(
        core.UpdateMetadataRequest,
        Api.UPDATE_METADATA,
        6,
        _update_metadata_to_wire,
        _update_metadata_answer_from_wire,
    ),
    Exchange(
        core.StopReplicaRequest, Api.STOP_REPLICA, 3, _stop_replica_to_wire, _partition_errors_from_wire
    ),
    Exchange(core.VoteRequest, Api.VOTE, 0, _vote_to_wire, _vote_answer_from_wire),
)
