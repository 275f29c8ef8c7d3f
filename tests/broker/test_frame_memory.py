"""Requests that are on their way in share a bound of memory, and none of them waits for ever."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.broker.served import Client, Running, framed, on_server, until

from tidelog.broker import frame_memory
from tidelog.broker.connection import Request
from tidelog.broker.server import Limits
from tidelog.wire.api import Api
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

VERSION = 0
BOUND = 1 << 20
LARGE = 3 * BOUND // 4
CLIENTS = 8
PIECE = 8 * 1024
"""What a connection holds that was read while memory was short."""


def request(size: int) -> bytes:
    assigned = [SyncGroupRequestAssignment(member_id="m", assignment=bytes(size))]
    body = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=assigned)
    return framed(Api.SYNC_GROUP, VERSION, body)


def tell_size(request: Request) -> None:
    """Answer with the size of what arrived."""
    size = len(request.body.assignments[0].assignment)
    request.respond(SyncGroupResponse(assignment=b"%d" % size))


def play(scene: Callable[[Running], Coroutine[Any, Any, None]], bound: int = BOUND) -> None:
    on_server(scene, {Api.SYNC_GROUP: tell_size}, Limits(incoming_bytes_max=bound))


async def told_size(client: Client) -> int:
    _, answer = await client.answer(Api.SYNC_GROUP, VERSION)
    return int(answer.assignment)


async def begun(running: Running, count: int) -> list[Client]:
    """Clients that have sent all of a large request but its last byte, as far as they are read from: the
    first fits, the second was begun when there was room, the third is favoured, the others wait."""
    clients = [await running.client() for _ in range(count)]
    for client in clients:
        client.writer.write(request(LARGE)[:-1])
    await until(lambda: len(running.server.memory._waiting) == count - 3)
    return clients


def test_a_promise_costs_nothing():
    """A request of 100 MB of which a few bytes came holds a few thousand, until its client leaves."""

    async def scene(running: Running) -> None:
        memory = running.server.memory
        start = request(100_000_000)[:64]
        clients = [await running.client() for _ in range(CLIENTS)]
        for client in clients:
            client.writer.write(start)
        await until(lambda: running.server.metrics.bytes_in == CLIENTS * len(start))
        assert memory.used <= CLIENTS * 4096
        for client in clients:
            client.writer.close()
        await until(lambda: memory.used == 0)

    play(scene)


def test_all_come_through_one_after_the_other():
    """Of requests that do not fit together few are held, and all are answered."""

    async def scene(running: Running) -> None:
        memory = running.server.memory
        clients = await begun(running, CLIENTS)
        assert memory.used <= BOUND + 2 * LARGE + CLIENTS * PIECE
        for client in clients:
            client.writer.write(request(LARGE)[-1:])
        assert await asyncio.gather(*map(told_size, clients)) == [LARGE] * CLIENTS
        assert (memory.used, memory.exhausted) == (0, False)

    play(scene)


def test_small_requests_do_not_wait_for_large_ones():
    async def scene(running: Running) -> None:
        await begun(running, CLIENTS)
        assert running.server.memory.exhausted
        small = await running.client()
        for size in (10, 1000, 3000):
            small.writer.write(request(size))
            assert await told_size(small) == size

    play(scene)


def test_the_favoured_one_has_its_time(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    """A client that does not go on while others wait is closed, with one line, and the next has its turn."""
    monkeypatch.setattr(frame_memory, "FAVOUR_SECONDS", 0.05)

    async def scene(running: Running) -> None:
        clients = await begun(running, 4)
        closed = [asyncio.ensure_future(client.is_closed()) for client in clients]
        done, others = await asyncio.wait(closed, return_when=asyncio.FIRST_COMPLETED)
        assert [closing.result() for closing in done] == [True]
        await until(lambda: not running.server.memory._waiting)
        for waiting in others:
            waiting.cancel()

    play(scene)
    (said,) = [record.getMessage() for record in caplog.records]
    assert "queued.max.request.bytes" in said


def test_without_a_bound_none_waits():
    async def scene(running: Running) -> None:
        memory = running.server.memory
        clients = [await running.client() for _ in range(CLIENTS)]
        sent = request(LARGE)[:-1]
        for client in clients:
            client.writer.write(sent)
        await until(lambda: running.server.metrics.bytes_in == CLIENTS * len(sent))
        assert memory.used >= CLIENTS * LARGE
        assert not memory._waiting

    play(scene, bound=frame_memory.UNBOUNDED)
