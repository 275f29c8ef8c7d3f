"""Requests of a broker to the controller: AlterIsr, RelieveReplica, ControlledShutdown, CreateTopics.

AlterIsr is Kafka 2.7's, with the broker epochs of new members (KIP-903) and the topic's id in private tagged
fields.
"""

from __future__ import annotations

from tidelog.broker.translation.exchange import Exchange, error_of
from tidelog.core import messages as core
from tidelog.core import topic_ids, topic_messages
from tidelog.core.types import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
)
from tidelog.storage.background import Steps, listed
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    alter_isr,
    controlled_shutdown,
    create_topics,
    relieve_replica,
)

CREATION_MS_MAX = 10_000
"""Shorter than the time-out of a silent peer: without its keeper the controller answers after this time."""


def _alter_isr_to_wire(request: core.AlterIsrRequest) -> alter_isr.AlterIsrRequest:
    part = alter_isr.PartitionData(
        partition_index=request.tp.partition,
        leader_epoch=request.leader_epoch,
        new_isr=list(request.isr),
        current_isr_version=request.version,
        new_isr_epochs=list(request.member_epochs),
    )
    topic = alter_isr.TopicData(
        name=request.tp.topic, partitions=[part], topic_id=topic_ids.to_wire(request.topic_id)
    )
    return alter_isr.AlterIsrRequest(
        broker_id=request.broker, broker_epoch=request.broker_epoch, topics=[topic]
    )


def alter_isr_from_wire(body: alter_isr.AlterIsrRequest) -> Steps[list[core.AlterIsrRequest]]:
    requests: list[core.AlterIsrRequest] = []
    for topic in body.topics:
        requests += yield from listed(
            core.AlterIsrRequest(
                tp=TopicPartition(topic.name, part.partition_index),
                broker=BrokerId(body.broker_id),
                broker_epoch=BrokerEpoch(body.broker_epoch),
                leader_epoch=LeaderEpoch(part.leader_epoch),
                isr=tuple(map(BrokerId, part.new_isr)),
                version=part.current_isr_version,
                member_epochs=tuple(map(BrokerEpoch, part.new_isr_epochs)),
                topic_id=topic_ids.from_wire(topic.topic_id),
            )
            for part in topic.partitions
        )
        yield
    return requests


def _alter_isr_answer_from_wire(
    asked: core.AlterIsrRequest, body: alter_isr.AlterIsrResponse
) -> core.AlterIsrResponse:
    response = core.AlterIsrResponse(
        tp=asked.tp,
        error=error_of(body.error_code),
        leader_epoch=asked.leader_epoch,
        number=asked.number,
    )
    if body.topics:
        part = body.topics[0].partitions[0]
        response.error = error_of(part.error_code)
        response.isr, response.version = tuple(map(BrokerId, part.isr)), part.current_isr_version
    return response


def _relieve_replica_to_wire(request: core.RelieveReplicaRequest) -> relieve_replica.RelieveReplicaRequest:
    return relieve_replica.RelieveReplicaRequest(
        broker_id=request.broker,
        broker_epoch=request.broker_epoch,
        topic_name=request.tp.topic,
        partition_index=request.tp.partition,
        leader_epoch=request.leader_epoch,
    )


def relieve_replica_from_wire(body: relieve_replica.RelieveReplicaRequest) -> core.RelieveReplicaRequest:
    tp = TopicPartition(body.topic_name, body.partition_index)
    return core.RelieveReplicaRequest(
        tp=tp,
        broker=BrokerId(body.broker_id),
        broker_epoch=BrokerEpoch(body.broker_epoch),
        leader_epoch=LeaderEpoch(body.leader_epoch),
    )


def _relieve_replica_answer_from_wire(
    asked: core.RelieveReplicaRequest, body: relieve_replica.RelieveReplicaResponse
) -> core.RelieveReplicaResponse:
    return core.RelieveReplicaResponse(tp=asked.tp, error=ErrorCode(body.error_code))


def _controlled_shutdown_to_wire(
    request: core.ControlledShutdownRequest,
) -> controlled_shutdown.ControlledShutdownRequest:
    return controlled_shutdown.ControlledShutdownRequest(
        broker_id=request.broker, broker_epoch=request.broker_epoch
    )


def _controlled_shutdown_from_wire(
    _asked: core.ControlledShutdownRequest, body: controlled_shutdown.ControlledShutdownResponse
) -> core.ControlledShutdownResponse:
    remaining = tuple(TopicPartition(p.topic_name, p.partition_index) for p in body.remaining_partitions)
    return core.ControlledShutdownResponse(error=error_of(body.error_code), remaining=remaining)


def _create_topic_to_wire(request: topic_messages.CreateTopicRequest) -> create_topics.CreateTopicsRequest:
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


def _create_topic_from_wire(
    asked: topic_messages.CreateTopicRequest, body: create_topics.CreateTopicsResponse
) -> topic_messages.CreateTopicResponse:
    result = body.topics[0]
    return topic_messages.CreateTopicResponse(
        topic=asked.topic, error=error_of(result.error_code), message=result.error_message
    )


EXCHANGES = (
    Exchange(core.AlterIsrRequest, Api.ALTER_ISR, 0, _alter_isr_to_wire, _alter_isr_answer_from_wire),
    Exchange(
        core.RelieveReplicaRequest,
        Api.RELIEVE_REPLICA,
        0,
        _relieve_replica_to_wire,
        _relieve_replica_answer_from_wire,
    ),
    Exchange(
        topic_messages.CreateTopicRequest,
        Api.CREATE_TOPICS,
        4,
        _create_topic_to_wire,
        _create_topic_from_wire,
    ),
    Exchange(
        core.ControlledShutdownRequest,
        Api.CONTROLLED_SHUTDOWN,
        3,
        _controlled_shutdown_to_wire,
        _controlled_shutdown_from_wire,
    ),
)
