"""Consumers that fetch from a follower (KIP-392), over real connections."""

import asyncio
from pathlib import Path

import pytest
from tests.broker.in_process import TOPIC, Stage, stage, until

from tidelog.core.types import TopicPartition
from tidelog.kafka_client.aio import ask
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

TP = TopicPartition(TOPIC, 0)
LEADER, FOLLOWER = 1, 2


async def fetched(place: Stage, version: int, offset: int = 0, wait_ms: int = 0) -> PartitionData:
    """What the follower answers."""
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    body = FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        topics=[FetchTopic(topic=TOPIC, partitions=[part])],
    )
    endpoint = place.nodes[FOLLOWER].endpoint
    answer = await ask(("127.0.0.1", endpoint.port), Api.FETCH, version, body, 30.0)
    return answer.responses[0].partitions[0]


async def replicated(place: Stage) -> None:
    """One record, of which the follower knows that it is committed."""
    for threads in place.threads.values():
        threads.release_all_from_now_on()
    await place.create(2)
    client = await place.client(LEADER)
    client.produce(b"first")
    assert (await client.produced()).error == 0
    await until(lambda: place.nodes[FOLLOWER].core.replicas[TP].high_watermark == 1)


@pytest.mark.parametrize(
    ("generation", "version", "error"),
    [
        ("epoch", 11, ErrorCode.NONE),
        ("elr", 12, ErrorCode.NONE),
        ("epoch", 10, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("kip101", 11, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_who_may_read_from_a_follower(
    tmp_path: Path, generation: str, version: int, error: ErrorCode
) -> None:
    """Clients of Kafka 2.4, from brokers of Kafka 2.4 on."""

    async def scene() -> None:
        async with stage(tmp_path, brokers=2, tidelog_generation=generation) as place:
            await replicated(place)
            answer = await fetched(place, version)
            assert answer.error_code == error
            assert bool(answer.records) == (error is ErrorCode.NONE)
            if error is ErrorCode.NONE:
                assert answer.high_watermark == 1

    asyncio.run(scene())


def test_a_consumer_waits_at_a_follower(tmp_path: Path) -> None:
    """Until the follower hears that the next record is committed, and no longer than it wants."""

    async def scene() -> None:
        async with stage(tmp_path, brokers=2) as place:
            await replicated(place)
            assert not (await fetched(place, 11, offset=1, wait_ms=20)).records
            waiting = asyncio.create_task(fetched(place, 11, offset=1, wait_ms=30_000))
            reads = place.nodes[FOLLOWER].core.replicas[TP].follower_reads
            assert reads is not None
            await until(lambda: reads.parked)
            client = await place.client(LEADER)
            client.produce(b"second")
            answer = await waiting
            assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, 2)
            assert answer.records

    asyncio.run(scene())
