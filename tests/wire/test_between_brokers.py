"""What only brokers speak, against bytes written out by hand from Kafka 2.7's message definitions."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.values import exchanges, samples

from tidelog.wire.api_keys import Api, schema_of
from tidelog.wire.codec import decode, encode
from tidelog.wire.messages.alter_isr import (
    AlterIsrRequest,
    AlterIsrResponse,
    PartitionData,
    PartitionResult,
    TopicData,
    TopicResult,
)
from tidelog.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from tidelog.wire.messages.relieve_replica import RelieveReplicaRequest, RelieveReplicaResponse
from tidelog.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from tidelog.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from tidelog.wire.messages.vote import VoteRequest, VoteResponse


def leader_and_isr_state(**more: Any) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=3,
        controller_epoch=7,
        leader=1,
        leader_epoch=5,
        isr=[1, 2],
        zk_version=9,
        replicas=[1, 2],
        **more,
    )


LEADERS = [LeaderAndIsrLiveLeader(broker_id=1, host_name="h", port=9092)]


def update_metadata_state(**more: Any) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=3,
        controller_epoch=7,
        leader=1,
        leader_epoch=5,
        isr=[1],
        zk_version=9,
        replicas=[1, 2],
        **more,
    )


ENDPOINT = UpdateMetadataEndpoint(port=9092, host="h", listener="L", security_protocol=1)

# Of each group of versions that look alike one. Fields in order, one group of hex digits each.
BYTES = [
    (
        LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=7,
            ungrouped_partition_states=[leader_and_isr_state(topic_name="t", is_new=True)],
            live_leaders=LEADERS,
        ),
        1,
        "00000001 00000007 00000001 000174 00000003 00000007 00000001 00000005 00000002 00000001 00000002"
        "00000009 00000002 00000001 00000002 01 00000001 00000001 000168 00002384",
    ),
    (
        LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=7,
            broker_epoch=258,
            topic_states=[LeaderAndIsrTopicState(topic_name="t", partition_states=[leader_and_isr_state()])],
            live_leaders=LEADERS,
        ),
        2,
        "00000001 00000007 0000000000000102 00000001 000174 00000001 00000003 00000007 00000001 00000005"
        "00000002 00000001 00000002 00000009 00000002 00000001 00000002 00 00000001 00000001 000168 00002384",
    ),
    (
        LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=7,
            broker_epoch=258,
            topic_states=[
                LeaderAndIsrTopicState(
                    topic_name="t",
                    partition_states=[leader_and_isr_state(adding_replicas=[4], removing_replicas=[2])],
                )
            ],
            live_leaders=LEADERS,
        ),
        4,
        "00000001 00000007 0000000000000102 02 0274 02 00000003 00000007 00000001 00000005"
        "03 00000001 00000002 00000009 03 00000001 00000002 02 00000004 02 00000002 00 00 00"
        "02 00000001 0268 00002384 00 00",
    ),
    (
        LeaderAndIsrResponse(
            error_code=11,
            partition_errors=[LeaderAndIsrPartitionError(topic_name="t", partition_index=3, error_code=6)],
        ),
        0,
        "000b 00000001 000174 00000003 0006",
    ),
    (
        LeaderAndIsrResponse(
            error_code=11,
            partition_errors=[LeaderAndIsrPartitionError(topic_name="t", partition_index=3, error_code=6)],
        ),
        4,
        "000b 02 0274 00000003 0006 00 00",
    ),
    (
        StopReplicaRequest(
            controller_id=1,
            controller_epoch=7,
            delete_partitions=True,
            ungrouped_partitions=[StopReplicaPartitionV0(topic_name="t", partition_index=3)],
        ),
        0,
        "00000001 00000007 01 00000001 000174 00000003",
    ),
    (
        StopReplicaRequest(
            controller_id=1,
            controller_epoch=7,
            broker_epoch=258,
            delete_partitions=True,
            topics=[StopReplicaTopicV1(name="t", partition_indexes=[3])],
        ),
        1,
        "00000001 00000007 0000000000000102 01 00000001 000174 00000001 00000003",
    ),
    (
        StopReplicaRequest(
            controller_id=1,
            controller_epoch=7,
            broker_epoch=258,
            delete_partitions=True,
            topics=[StopReplicaTopicV1(name="t", partition_indexes=[3])],
        ),
        2,
        "00000001 00000007 0000000000000102 01 02 0274 02 00000003 00 00",
    ),
    (
        StopReplicaRequest(
            controller_id=1,
            controller_epoch=7,
            broker_epoch=258,
            topic_states=[
                StopReplicaTopicState(
                    topic_name="t",
                    partition_states=[
                        StopReplicaPartitionState(partition_index=3, leader_epoch=5, delete_partition=True)
                    ],
                )
            ],
        ),
        3,
        "00000001 00000007 0000000000000102 02 0274 02 00000003 00000005 01 00 00 00",
    ),
    (
        StopReplicaResponse(
            partition_errors=[StopReplicaPartitionError(topic_name="t", partition_index=3, error_code=74)]
        ),
        1,
        "0000 00000001 000174 00000003 004a",
    ),
    (
        StopReplicaResponse(
            partition_errors=[StopReplicaPartitionError(topic_name="t", partition_index=3, error_code=74)]
        ),
        3,
        "0000 02 0274 00000003 004a 00 00",
    ),
    (
        UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=7,
            ungrouped_partition_states=[update_metadata_state(topic_name="t")],
            live_brokers=[UpdateMetadataBroker(id=1, v0_host="h", v0_port=9092)],
        ),
        0,
        "00000001 00000007 00000001 000174 00000003 00000007 00000001 00000005 00000001 00000001 00000009"
        "00000002 00000001 00000002 00000001 00000001 000168 00002384",
    ),
    (
        UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=7,
            ungrouped_partition_states=[update_metadata_state(topic_name="t", offline_replicas=[2])],
            live_brokers=[UpdateMetadataBroker(id=1, endpoints=[ENDPOINT], rack=None)],
        ),
        4,
        "00000001 00000007 00000001 000174 00000003 00000007 00000001 00000005 00000001 00000001 00000009"
        "00000002 00000001 00000002 00000001 00000002 00000001 00000001 00000001 00002384 000168 00014c 0001"
        "ffff",
    ),
    (
        UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=7,
            broker_epoch=258,
            topic_states=[
                UpdateMetadataTopicState(topic_name="t", partition_states=[update_metadata_state()])
            ],
            live_brokers=[UpdateMetadataBroker(id=1, endpoints=[ENDPOINT], rack="r")],
        ),
        5,
        "00000001 00000007 0000000000000102 00000001 000174 00000001 00000003 00000007 00000001 00000005"
        "00000001 00000001 00000009 00000002 00000001 00000002 00000000"
        "00000001 00000001 00000001 00002384 000168 00014c 0001 000172",
    ),
    (
        UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=7,
            broker_epoch=258,
            topic_states=[
                UpdateMetadataTopicState(topic_name="t", partition_states=[update_metadata_state()])
            ],
            live_brokers=[UpdateMetadataBroker(id=1, endpoints=[ENDPOINT], rack="r")],
        ),
        6,
        "00000001 00000007 0000000000000102 02 0274 02 00000003 00000007 00000001 00000005"
        "02 00000001 00000009 03 00000001 00000002 01 00 00"
        "02 00000001 02 00002384 0268 024c 0001 00 0272 00 00",
    ),
    (UpdateMetadataResponse(error_code=77), 5, "004d"),
    (UpdateMetadataResponse(error_code=77), 6, "004d 00"),
    (ControlledShutdownRequest(broker_id=2), 1, "00000002"),
    (ControlledShutdownRequest(broker_id=2, broker_epoch=258), 2, "00000002 0000000000000102"),
    (ControlledShutdownRequest(broker_id=2, broker_epoch=258), 3, "00000002 0000000000000102 00"),
    (
        ControlledShutdownResponse(
            remaining_partitions=[RemainingPartition(topic_name="t", partition_index=3)]
        ),
        2,
        "0000 00000001 000174 00000003",
    ),
    (
        ControlledShutdownResponse(
            remaining_partitions=[RemainingPartition(topic_name="t", partition_index=3)]
        ),
        3,
        "0000 02 0274 00000003 00 00",
    ),
    (
        AlterIsrRequest(
            broker_id=1,
            broker_epoch=258,
            topics=[
                TopicData(
                    name="t",
                    partitions=[
                        PartitionData(
                            partition_index=3, leader_epoch=5, new_isr=[1, 2], current_isr_version=9
                        )
                    ],
                )
            ],
        ),
        0,
        "00000001 0000000000000102 02 0274 02 00000003 00000005 03 00000001 00000002 00000009 00 00 00",
    ),
    (
        # Our own field: tag 1000 is e8 07, of 9 bytes: a count of one and the epoch.
        AlterIsrRequest(
            broker_id=1,
            topics=[
                TopicData(
                    name="t",
                    partitions=[
                        PartitionData(
                            partition_index=3,
                            leader_epoch=5,
                            new_isr=[1],
                            current_isr_version=9,
                            new_isr_epochs=[258],
                        )
                    ],
                )
            ],
        ),
        0,
        "00000001 ffffffffffffffff 02 0274 02 00000003 00000005 02 00000001 00000009"
        "01 e807 09 02 0000000000000102 00 00",
    ),
    (
        AlterIsrResponse(
            error_code=0,
            topics=[
                TopicResult(
                    name="t",
                    partitions=[
                        PartitionResult(
                            partition_index=3,
                            error_code=95,
                            leader_id=1,
                            leader_epoch=5,
                            isr=[1],
                            current_isr_version=10,
                        )
                    ],
                )
            ],
        ),
        0,
        "00000000 0000 02 0274 02 00000003 005f 00000001 00000005 02 00000001 0000000a 00 00 00",
    ),
    (
        FetchRequest(max_wait_ms=500, min_bytes=1, topics=[], replica_id=2, replica_epoch=258),
        12,
        "00000002 000001f4 00000001 7fffffff 00 00000000 ffffffff 01 01 01 01 e807 08 0000000000000102",
    ),
    (
        VoteRequest(
            controller_id=1,
            controller_epoch=7,
            broker_epoch=258,
            topic_name="t",
            partition_index=3,
            leader_epoch=5,
        ),
        0,
        "00000001 00000007 0000000000000102 0274 00000003 00000005 00",
    ),
    (
        VoteResponse(
            error_code=0, topic_name="t", partition_index=3, leader_epoch=5, last_epoch=4, end_offset=258
        ),
        0,
        "0000 0274 00000003 00000005 00000004 0000000000000102 00",
    ),
    (
        RelieveReplicaRequest(
            broker_id=1, broker_epoch=258, topic_name="t", partition_index=3, leader_epoch=5
        ),
        0,
        "00000001 0000000000000102 0274 00000003 00000005 00",
    ),
    (RelieveReplicaResponse(error_code=6), 0, "0006 00"),
]


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        pytest.param(*case, id=f"{type(case[0]).__name__}-v{case[1]}-{number}")
        for number, case in enumerate(BYTES)
    ],
)
def test_bytes_are_those_of_the_definition(message: Any, version: int, expected: str) -> None:
    """A message between brokers is, byte for byte, what Kafka 2.7's definition says, and reads back."""
    api = next(known for known, _ in exchanges() if type(message) in (known.request, known.response))
    data = encode(message, version, api.flexible(version))
    assert data.hex() == expected.replace(" ", "")
    assert decode(type(message), version, api.flexible(version), data) == message


@pytest.mark.parametrize(
    "api", [Api.LEADER_AND_ISR, Api.STOP_REPLICA, Api.UPDATE_METADATA, Api.CONTROLLED_SHUTDOWN, Api.ALTER_ISR,
            Api.VOTE, Api.RELIEVE_REPLICA, Api.FETCH], ids=lambda api: api.name,
)  # fmt: skip
def test_survives_every_version(api: Api) -> None:
    """What brokers exchange, our own fields included, comes back as it was sent, in every version."""
    known = schema_of(api)
    for version in known.versions:
        flexible = known.flexible(version)
        for cls in (known.request, known.response):
            for message in samples(cls, version, flexible, 12, private=True):
                assert decode(cls, version, flexible, encode(message, version, flexible)) == message
