"""Work of any size is done in slices: in order for its connection, between others, and with an end."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.broker.served import Client, Running, framed, on_server, until

from tidelog.broker import connection, slices
from tidelog.broker.connection import Request
from tidelog.broker.server import LARGE_BYTES, Limits
from tidelog.storage.background import Steps, StepsAndJobs, in_thread
from tidelog.wire.api import Api
from tidelog.wire.errors import ProtocolError
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

BEAT, META = (Api.HEARTBEAT, 0), (Api.METADATA, 9)
MANY = 2_000


@pytest.fixture
def one_step_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every slice is over after its first step, however fast the machine is."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(connection, "SLICE_SECONDS", 0.0)


def beat(number: int = 1) -> bytes:
    body = HeartbeatRequest(group_id="g", generation_id=number, member_id="m")
    return framed(*BEAT, body, number)


def metadata(names: int, number: int = 1) -> bytes:
    return framed(*META, MetadataRequest(topics=[MetadataRequestTopic(name="t" * 20)] * names), number)


class Handlers:
    """Heartbeats are answered at once; a Metadata request takes a step for each topic it names."""

    def __init__(self) -> None:
        self.steps: dict[int, int] = {}
        """Made so far, by correlation id."""
        self.ended: list[int] = []
        self.held = False
        """While it is, a Metadata request is never done: however long others take meanwhile."""

    def served(self) -> dict[int, Callable[[Request], Any]]:
        return {Api.HEARTBEAT: self.heartbeat, Api.METADATA: self.metadata}

    def heartbeat(self, request: Request) -> None:
        request.respond(HeartbeatResponse(error_code=0))

    def metadata(self, request: Request) -> Steps[None]:
        number = request.header.correlation_id
        names = [topic.name for topic in request.body.topics]
        try:
            for made, _ in enumerate(names, start=1):
                self.steps[number] = made
                yield
            while self.held:
                yield
        finally:
            self.ended.append(number)
        topics = [MetadataResponseTopic(name=name, partitions=[]) for name in names]
        request.respond(MetadataResponse(brokers=[], topics=topics))


async def beaten(client: Client, number: int = 1) -> None:
    client.writer.write(beat(number))
    assert (await client.answer(*BEAT))[0] == number


@pytest.mark.usefixtures("one_step_a_turn")
def test_others_are_answered_in_between():
    """While one request is decoded, handled and answered, another client has its answers as ever."""
    handlers = Handlers()
    handlers.held = True

    async def scene(running: Running) -> None:
        large, small = await running.client(), await running.client()
        assert len(metadata(MANY)) > LARGE_BYTES
        large.writer.write(metadata(MANY))
        await until(lambda: handlers.steps)
        await beaten(small)
        assert not handlers.ended
        handlers.held = False
        await until(lambda: handlers.ended)
        answering = asyncio.ensure_future(large.answer(*META))
        await beaten(small)
        _, answer = await answering
        assert len(answer.topics) == MANY

    on_server(scene, handlers.served())


@pytest.mark.usefixtures("one_step_a_turn")
def test_requests_of_one_connection_stay_in_order():
    """What comes behind a long request is begun when that is done."""
    handlers = Handlers()

    async def scene(running: Running) -> None:
        client = await running.client()
        client.writer.write(metadata(MANY, 1) + beat(2) + metadata(10, 3) + beat(4))
        assert (await client.answer(*META))[0] == 1
        assert (await client.answer(*BEAT))[0] == 2
        assert (await client.answer(*META))[0] == 3
        assert (await client.answer(*BEAT))[0] == 4
        assert handlers.ended == [1, 3]

    on_server(scene, handlers.served())


@pytest.mark.usefixtures("one_step_a_turn")
def test_only_a_few_are_worked_on_at_a_time():
    """The others have made their first step, and hold what that took."""
    handlers = Handlers()
    handlers.held = True
    clients = 3 * slices.ACTIVE_MAX

    async def scene(running: Running) -> None:
        connected = [await running.client() for _ in range(clients)]
        for number, client in enumerate(connected):
            client.writer.write(
                framed(*META, MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 300), number)
            )
        await until(lambda: len(handlers.steps) == clients)
        assert sum(made > 1 for made in handlers.steps.values()) <= slices.ACTIVE_MAX
        handlers.held = False
        answers = await asyncio.gather(*(client.answer(*META) for client in connected))
        assert [number for number, _ in answers] == list(range(clients))

    on_server(scene, handlers.served())


@pytest.mark.usefixtures("one_step_a_turn")
def test_work_for_a_connection_that_is_gone_ends():
    """As soon as that is known: it is not read from, so a client that just leaves is served to the end."""
    handlers = Handlers()

    async def scene(running: Running) -> None:
        client = await running.client()
        client.writer.write(metadata(MANY))
        await until(lambda: handlers.steps)
        (served,) = running.server.connections
        served.abort()
        await until(lambda: handlers.ended)
        assert handlers.steps[1] < MANY
        assert not running.server.slices._active
        await until(lambda: running.server.memory.used == 0)

    on_server(scene, handlers.served())


@pytest.mark.parametrize(
    ("failure", "said"),
    [(ProtocolError("no such thing"), "no such thing"), (KeyError("bug"), "failed on METADATA v9")],
)
@pytest.mark.usefixtures("one_step_a_turn")
def test_steps_that_fail_cost_their_connection(
    failure: Exception, said: str, caplog: pytest.LogCaptureFixture
):
    """With one entry in the log. Other connections do not notice."""

    def fail(request: Request) -> Steps[None]:
        yield
        raise failure

    handlers = {**Handlers().served(), Api.METADATA: fail}

    async def scene(running: Running) -> None:
        failing, other = await running.client(), await running.client()
        failing.writer.write(metadata(1))
        assert await failing.is_closed()
        await beaten(other)

    on_server(scene, handlers)
    (record,) = caplog.records
    assert said in record.getMessage()
    assert (record.exc_info is not None) == isinstance(failure, KeyError)


def test_a_step_may_wait_for_a_thread():
    """The loop goes on meanwhile; what the thread found, or what ended it, arrives where it was asked for."""
    gate = threading.Event()

    def look(request: Request) -> StepsAndJobs[None]:
        name = yield from in_thread(lambda: gate.wait(PATIENCE_SECONDS) and threading.current_thread().name)
        try:
            yield from in_thread(lambda: 1 // 0)
        except ZeroDivisionError:
            topic = MetadataResponseTopic(name=str(name), partitions=[])
            request.respond(MetadataResponse(brokers=[], topics=[topic]))

    async def scene(running: Running) -> None:
        waiting, other = await running.client(), await running.client()
        waiting.writer.write(metadata(1))
        await until(lambda: running.server.slices._delegated)
        await beaten(other)
        gate.set()
        _, answer = await waiting.answer(*META)
        assert answer.topics[0].name != threading.current_thread().name

    on_server(scene, {**Handlers().served(), Api.METADATA: look})


def test_many_requests_in_one_read_are_all_answered():
    """Also those beyond what is held open at a time, without another byte from the client."""
    count, open_max = 1_500, 100

    async def scene(running: Running) -> None:
        client = await running.client()
        client.writer.write(b"".join(beat(number) for number in range(count)))
        assert [(await client.answer(*BEAT))[0] for _ in range(count)] == list(range(count))

    on_server(scene, Handlers().served(), Limits(requests_open_max=open_max))
