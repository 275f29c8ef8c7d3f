"""A broker serves clients when it knows its cluster, and not before."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path

import uvloop
from tests.broker.in_process import Stage, stage, until
from tests.broker.served import Running, framed, on_server
from tests.clients import raw

from tidelog.broker.apis import SERVED, Listener
from tidelog.broker.connection import Request
from tidelog.broker.node import Node
from tidelog.broker.peers import peers
from tidelog.broker.server import Handler
from tidelog.broker.translation import brokers as inter_broker
from tidelog.core import keeper_paths
from tidelog.core.keeper_port import Create, Delete
from tidelog.keeper.client import KeeperConnection
from tidelog.wire.api import Api
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

ELSEWHERE = 9
"""A controller that tells nothing: it holds the office, and does not run."""


async def without_controller(set_up: Stage) -> tuple[Node, KeeperConnection]:
    """A broker that is registered and hears of no controller, until its node is removed."""
    keeper = await set_up.keeper_client()
    assert (await keeper.request(Create(keeper_paths.CONTROLLER, ELSEWHERE, ephemeral=True))).ok
    return await set_up.start(1), keeper


def metadata_of(fields: raw.Fields) -> tuple[list[int], int]:
    """The brokers and the controller, of an answer in version 1."""
    brokers = []
    for _ in range(fields.int32()):
        brokers.append(fields.int32())
        fields.string()
        fields.int32()
        fields.string()
    return brokers, fields.int32()


def test_no_client_is_told_that_there_is_no_controller(tmp_path: Path):
    """It waits for its answer until there is one to name: librdkafka's admin client does not ask again before
    its own time-out if there is none."""

    async def scene() -> None:
        async with stage(tmp_path, brokers=0) as set_up:
            node, keeper = await without_controller(set_up)
            client = await set_up.client(1)
            client.send(raw.API_VERSIONS, 0, b"")
            client.send(raw.METADATA, 1, struct.pack(">i", 0))
            await until(lambda: node.metrics.bytes_in)
            assert (await keeper.request(Delete(keeper_paths.CONTROLLER))).ok
            assert (await client.answer()).int16() == raw.NONE
            assert metadata_of(await client.answer()) == ([1], 1)

    uvloop.run(scene())


def answer_versions(order: list[str], request: Request) -> None:
    order.append("client")
    request.respond(ApiVersionsResponse(api_keys=[]))


def answer_creation(order: list[str], request: Request) -> None:
    order.append("broker")
    request.respond(CreateTopicsResponse(topics=[]))


def test_brokers_are_served_while_clients_wait():
    """What a controller may send goes past those who wait, though not past one on its own connection."""
    order: list[str] = []
    asked = framed(Api.API_VERSIONS, 0, ApiVersionsRequest())
    told = framed(Api.CREATE_TOPICS, 2, CreateTopicsRequest(topics=[], timeout_ms=0, validate_only=False))

    async def scene(running: Running) -> None:
        client, broker, both = [await running.client() for _ in range(3)]
        client.writer.write(asked)
        both.writer.write(asked + told)
        await until(lambda: running.server.metrics.bytes_in == 2 * len(asked) + len(told))
        broker.writer.write(told)
        await broker.answer(Api.CREATE_TOPICS, 2)
        assert order == ["broker"]
        running.server.open()
        await client.answer(Api.API_VERSIONS, 0)
        await both.answer(Api.API_VERSIONS, 0)
        await both.answer(Api.CREATE_TOPICS, 2)
        broker.writer.write(asked)
        await broker.answer(Api.API_VERSIONS, 0)

    handlers: dict[int, Handler] = {
        Api.API_VERSIONS: partial(answer_versions, order),
        Api.CREATE_TOPICS: partial(answer_creation, order),
    }
    on_server(scene, handlers, starting=True)
    assert sorted(order) == ["broker", "broker", "client", "client", "client"]


def test_whatever_comes_on_a_controllers_line_is_served_at_once():
    """It would hold up what comes behind it, and that may be what the broker waits for."""
    commands = {exchange.api for exchange in inter_broker.EXCHANGES if exchange.asked not in peers._QUESTIONS}
    assert all(Listener.BETWEEN_BROKERS in SERVED[api].listener for api in commands)
