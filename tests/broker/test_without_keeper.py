"""A cluster whose keeper is away: what can be served is, the rest is answered in time, and brokers leave."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.broker.in_process import TOPIC, Client, Stage, stage, until
from tests.clients import raw

from tidelog.broker.apis import gather
from tidelog.core.producer_ids import BLOCK_SIZE, TRY_AGAIN
from tidelog.wire.api import Api, decode_response, encode_request
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest

SHORT_MS = 50
PATIENCE_SECONDS = 60.0
SETTINGS = {
    "controlled_shutdown_retry_backoff_ms": "1",
    "controller_socket_timeout_ms": "3600000",
    "replica_lag_time_max_ms": "600000",
}
"""Nothing but what the test does goes on meanwhile."""


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """With requests that say nothing about time."""
    monkeypatch.setattr(gather, "KEEPER_SECONDS_MAX", SHORT_MS / 1000)


def played(folder: Path, scene: Callable[[Stage], Awaitable[None]], brokers: int = 1) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), stage(folder, brokers, **SETTINGS) as set_up:
            await until(lambda: all(node.informed.is_set() for node in set_up.nodes.values()))
            await scene(set_up)

    uvloop.run(run())


async def lose_keeper(set_up: Stage) -> None:
    set_up.keeper_line.cut()
    await until(lambda: not any(node.keeper.connected for node in set_up.nodes.values()))


async def ask(client: Client, api: Api, version: int, body: Any) -> Any:
    client.writer.writelines(encode_request(api, version, 1, "test", body))
    answer = await client.answer()
    _, response = decode_response(api, version, struct.pack(">i", 1) + answer.rest())
    return response


def topic(name: str) -> CreateTopicsRequest:
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[wanted], timeout_ms=SHORT_MS, validate_only=False)


ALTERED = AlterConfigsResource(
    resource_type=2,
    resource_name=TOPIC,
    configs=[AlterableConfig(name="retention.ms", value="1000")],
)
REQUESTS: list[tuple[Api, int, Any, Callable[[Any], int]]] = [
    (Api.CREATE_TOPICS, 4, topic("more"), lambda r: r.topics[0].error_code),
    (
        Api.DELETE_TOPICS,
        3,
        DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=SHORT_MS),
        lambda r: r.responses[0].error_code,
    ),
    (
        Api.CREATE_PARTITIONS,
        1,
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=TOPIC, count=3, assignments=None)],
            timeout_ms=SHORT_MS,
            validate_only=False,
        ),
        lambda r: r.results[0].error_code,
    ),
    (
        Api.ALTER_CONFIGS,
        1,
        AlterConfigsRequest(resources=[ALTERED], validate_only=False),
        lambda r: r.responses[0].error_code,
    ),
    (
        Api.DESCRIBE_CONFIGS,
        2,
        DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=2, resource_name=TOPIC, configuration_keys=None)]
        ),
        lambda r: r.results[0].error_code,
    ),
    (
        Api.ELECT_LEADERS,
        1,
        ElectLeadersRequest(
            election_type=0,
            topic_partitions=[TopicPartitions(topic=TOPIC, partitions=[0])],
            timeout_ms=SHORT_MS,
        ),
        lambda r: r.replica_election_results[0].partition_result[0].error_code,
    ),
]


def test_requests_that_need_the_keeper_are_answered_in_time(tmp_path: Path):
    """Each of them behind those before, which still wait for it."""

    async def scene(set_up: Stage) -> None:
        await set_up.create(replicas=1)
        client = await set_up.client(1)
        await lose_keeper(set_up)
        for api, version, body, error in REQUESTS:
            code = error(await ask(client, api, version, body))
            assert (api, ErrorCode(code)) == (api, ErrorCode.REQUEST_TIMED_OUT)

    played(tmp_path, scene)


def test_what_was_given_up_may_be_done_when_the_keeper_is_back(tmp_path: Path):
    """Its answer goes nowhere then; the next request has its own."""

    async def scene(set_up: Stage) -> None:
        client = await set_up.client(1)
        await lose_keeper(set_up)
        timed_out = await ask(client, Api.CREATE_TOPICS, 4, topic("late"))
        assert timed_out.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        set_up.keeper_line.mend()
        await until(lambda: "late" in set_up.nodes[1].core.metadata.topics)
        again = await ask(client, Api.CREATE_TOPICS, 4, topic("late"))
        assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS

    played(tmp_path, scene)


def test_producers_begin_while_the_keeper_is_away(tmp_path: Path):
    """A block of ids is reserved before it is asked for, as Kafka's brokers do. When it is used up they get
    an error and retry; Kafka 2.7 does not answer."""

    async def scene(set_up: Stage) -> None:
        await set_up.create(replicas=1)
        client = await set_up.client(1)
        reserved = set_up.nodes[1].core._producer_ids
        await until(lambda: reserved._next_block)
        await lose_keeper(set_up)
        body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        answers = [await ask(client, Api.INIT_PRODUCER_ID, 1, body) for _ in range(BLOCK_SIZE)]
        assert [answer.producer_id for answer in answers] == list(range(BLOCK_SIZE))
        assert (await ask(client, Api.INIT_PRODUCER_ID, 1, body)).error_code == TRY_AGAIN
        client.produce(b"still here")
        assert (await client.produced()).error == raw.NONE

    played(tmp_path, scene)


def test_a_controller_leaves_without_the_keeper(tmp_path: Path):
    """It could not move anything, itself being the one to do it."""

    async def scene(set_up: Stage) -> None:
        await lose_keeper(set_up)
        node = set_up.nodes[1]
        node.stop("SIGTERM")
        assert node.stopped.is_set()

    played(tmp_path, scene)


def test_a_broker_leaves_whose_controller_has_no_keeper(tmp_path: Path):
    """The controller says at once that it cannot help; a broker whose controller is gone as well finds that
    out by itself. Neither waits for an answer that cannot come."""

    async def scene(set_up: Stage) -> None:
        await lose_keeper(set_up)
        assert set_up.nodes[1].core.controller.active
        set_up.nodes[2].stop("SIGTERM")
        await set_up.nodes[2].stopped.wait()
        await set_up.nodes[1].server.close()
        set_up.nodes[3].stop("SIGTERM")
        await set_up.nodes[3].stopped.wait()

    played(tmp_path, scene, brokers=3)
