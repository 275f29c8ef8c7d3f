"""tidelog.flush=always: an acknowledged record is on disk, here and on every follower that counts.

The brokers run inside the test, on real files and real connections, with threads that do no work until they
are told to: so a sync takes as long as the test wants, and what depends on it shows.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.broker.running import events
from tests.clients import raw
from tests.clients.raw import Fields

from tidelog.broker.loading import settle
from tidelog.broker.node import Node
from tidelog.broker.process import assemble, register
from tidelog.broker.properties import Property
from tidelog.core.log import StorageFailure
from tidelog.core.types import TopicPartition
from tidelog.keeper.client import connect
from tidelog.keeper.embedded import EmbeddedKeeper
from tidelog.storage.file_storage import FileStorage

TOPIC = "ledger"


class HeldBack(Executor):
    """Threads that begin nothing by themselves."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self.open = False

    def submit(self, work: Any, /, *arguments: Any, **keywords: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, partial(work, *arguments, **keywords)))
        if self.open:
            self.release()
        return future

    def release(self) -> None:
        """Do the oldest work."""
        future, work = self.waiting.popleft()
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    def fail(self) -> None:
        """Do the oldest work on a disk that is broken."""
        future, _ = self.waiting.popleft()
        future.set_exception(StorageFailure("ledger-0 failed: Input/output error; check the disk"))

    def release_all_from_now_on(self) -> None:
        self.open = True
        while self.waiting:
            self.release()


class Client:
    """Requests by hand, over asyncio: they share the event loop with the brokers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._correlation = 0

    def send(self, key: int, version: int, body: bytes) -> None:
        self._correlation += 1
        self.writer.write(raw.frame(key, version, self._correlation, body))

    async def answer(self) -> Fields:
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        fields = Fields(await self._reader.readexactly(size))
        fields.int32()
        return fields

    def produce(self, value: bytes, acks: int = -1, topic: str = TOPIC) -> None:
        body = raw.produce_body(topic, raw.batch([value]), acks=acks)
        self.send(raw.PRODUCE, raw.PRODUCE_VERSION, body)

    async def produced(self) -> raw.Produced:
        return raw.produced(await self.answer())

    async def fetched(self, offset: int) -> raw.Fetched:
        self.send(raw.FETCH, raw.FETCH_VERSION, raw.fetch_body(TOPIC, offset, wait_ms_max=0))
        return raw.fetched(await self.answer())

    async def ping(self) -> None:
        self.send(raw.API_VERSIONS, 0, b"")
        await self.answer()


class Stage:
    """A keeper, and brokers with their threads."""

    def __init__(self, keeper: EmbeddedKeeper, folder: Path, leaving: AsyncExitStack) -> None:
        self._keeper = keeper
        self._folder = folder
        self._leaving = leaving
        self.nodes: dict[int, Node] = {}
        self.threads: dict[int, HeldBack] = {}

    async def start(self, number: int) -> Node:
        url = f"embedded://127.0.0.1:{self._keeper.port}"
        values = {
            "broker.id": str(number),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self._folder / str(number)),
            "tidelog.keeper": url,
            "tidelog.flush": "always",
            "tidelog.evidence.dir": str(self._folder / "events"),
        }
        settings = settle(Property(name, value, "test") for name, value in values.items()).settings
        storage = FileStorage(settings.log_dirs, broker_id=number, defaults=settings.log_defaults())
        self._leaving.callback(storage.close)
        keeper = connect(url)
        self._leaving.push_async_callback(keeper.close)
        threads = self.threads[number] = HeldBack()
        node = self.nodes[number] = await assemble(settings, storage, keeper, threads)
        self._leaving.callback(node.close)
        self._leaving.push_async_callback(node.server.close)
        await register(node, keeper)
        return node

    async def client(self, number: int) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.nodes[number].endpoint.port)
        self._leaving.callback(writer.close)
        return Client(reader, writer)

    async def create(self, replicas: int, topic: str = TOPIC, **settings: str) -> None:
        """Made by the controller; done when all brokers know the leader, the first one."""
        client = await self.client(1)
        config = b"".join(
            raw.string(name.replace("_", ".")) + raw.string(value) for name, value in settings.items()
        )
        assigned = b"".join(struct.pack(">i", number) for number in range(1, replicas + 1))
        body = (
            struct.pack(">i", 1)
            + raw.string(topic)
            + struct.pack(">ih", -1, -1)
            + struct.pack(">iii", 1, 0, replicas)
            + assigned
            + struct.pack(">i", len(settings))
            + config
            + struct.pack(">i", 10_000)
        )
        client.send(19, 0, body)
        fields = await client.answer()
        assert (fields.int32(), fields.string(), fields.int16()) == (1, topic, 0)
        tp = TopicPartition(topic, 0)
        await until(lambda: self.nodes[1].leads(tp))
        await until(lambda: all(tp in self.nodes[n].core.replicas for n in range(1, replicas + 1)))


@asynccontextmanager
async def stage(folder: Path, brokers: int = 1) -> AsyncIterator[Stage]:
    keeper = EmbeddedKeeper(None)
    await keeper.start()
    try:
        async with AsyncExitStack() as leaving:
            set_up = Stage(keeper, folder, leaving)
            for number in range(1, brokers + 1):
                await set_up.start(number)
            await until(lambda: all(len(n.core.metadata.endpoints) == brokers for n in set_up.nodes.values()))
            yield set_up
    finally:
        await keeper.stop()


async def until(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not check():
            await asyncio.sleep(0.005)


async def stays_silent(answer: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """The task of an answer that cannot come yet: everything that could bring it has been done."""
    task = asyncio.create_task(answer)
    for _ in range(50):
        await asyncio.sleep(0)
    assert not task.done()
    return task


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


# ---------------------------------------------------------------- one broker


@pytest.mark.parametrize("acks", [1, -1])
def test_an_acknowledgement_waits_for_the_disk(tmp_path: Path, acks: int):
    async def scenario() -> None:
        async with stage(tmp_path) as place:
            await place.create(1)
            client, threads = await place.client(1), place.threads[1]
            client.produce(b"a", acks)
            await until(lambda: threads.waiting)
            answer = await stays_silent(client.produced())
            threads.release()
            assert await answer == raw.Produced(raw.NONE, 0)
            log = place.nodes[1].storage.open(TopicPartition(TOPIC, 0))
            assert log.recovery_point == 1

    play(scenario())


def test_one_sync_serves_all_that_came_during_the_one_before(tmp_path: Path):
    """Group commit: however many clients write, a broker waits for its disk once at a time."""

    async def scenario() -> None:
        async with stage(tmp_path) as place:
            await place.create(1)
            threads = place.threads[1]
            clients = [await place.client(1) for _ in range(6)]
            clients[0].produce(b"first")
            await until(lambda: threads.waiting)
            for client in clients[1:]:
                client.produce(b"later")
            log = place.nodes[1].storage.open(TopicPartition(TOPIC, 0))
            await until(lambda: log.end_offset == 6)
            later = [await stays_silent(client.produced()) for client in clients[1:]]
            assert len(threads.waiting) == 1
            threads.release()
            assert (await clients[0].produced()).base_offset == 0
            assert not any(task.done() for task in later)
            assert len(threads.waiting) == 1  # one more for all five
            threads.release()
            answers = await asyncio.gather(*later)
            assert sorted(answer.base_offset for answer in answers) == [1, 2, 3, 4, 5]
            assert not threads.waiting

    play(scenario())


def test_the_order_is_kept(tmp_path: Path):
    """Answers of one connection come in the order of its requests, and offsets with them."""

    async def scenario() -> None:
        async with stage(tmp_path) as place:
            await place.create(1)
            client, threads = await place.client(1), place.threads[1]
            log = place.nodes[1].storage.open(TopicPartition(TOPIC, 0))
            for number in range(9):
                client.produce(str(number).encode(), acks=(1, -1)[number % 2])
                if number == 4:
                    await until(lambda: log.end_offset == 5)
            await until(lambda: log.end_offset == 9)
            threads.release_all_from_now_on()
            assert [(await client.produced()).base_offset for _ in range(9)] == list(range(9))

    play(scenario())


def test_reads_of_what_is_on_disk_go_on(tmp_path: Path):
    """And see nothing of what is not: neither records nor that there are any. Other requests go on, too."""

    async def scenario() -> None:
        async with stage(tmp_path) as place:
            await place.create(1)
            writer, reader, threads = await place.client(1), await place.client(1), place.threads[1]
            writer.produce(b"old")
            await until(lambda: threads.waiting)
            threads.release()
            await writer.produced()
            writer.produce(b"new")
            await until(lambda: threads.waiting)
            await reader.ping()
            old = await reader.fetched(0)
            assert old.high_watermark == 1
            assert b"old" in old.records
            assert b"new" not in old.records
            new = await stays_silent(reader.fetched(1))
            threads.release_all_from_now_on()
            assert b"new" in (await new).records
            assert (await writer.produced()).base_offset == 1

    play(scenario())


def test_a_failed_sync_ends_the_broker_and_acknowledges_nothing(tmp_path: Path):
    """Whatever else is asked meanwhile, and even if a later sync succeeds: nobody knows what is on disk."""

    async def scenario() -> None:
        async with stage(tmp_path) as place:
            await place.create(1)
            await place.create(1, "other", tidelog_flush="roll")
            client, other, threads = await place.client(1), await place.client(1), place.threads[1]
            client.produce(b"a")
            await until(lambda: threads.waiting)
            answer = await stays_silent(client.produced())
            threads.fail()
            await until(place.nodes[1].stopped.is_set)
            threads.release_all_from_now_on()
            other.produce(b"b", topic="other")
            await stays_silent(answer_of(answer))
            await stays_silent(other.produced())
            assert place.nodes[1].failure == (
                "cannot make the log durable: ledger-0 failed: Input/output error; check the disk"
            )
            await place.nodes[1].server.close()
            with pytest.raises(asyncio.IncompleteReadError):
                await answer
        stopped = [row for row in events(tmp_path / "events") if row["event"] == "process_stopped"]
        assert [row["cause"] for row in stopped] == [place.nodes[1].failure]

    play(scenario())


async def answer_of(task: asyncio.Task[Any]) -> None:
    await asyncio.shield(task)


# ---------------------------------------------------------------- two


def test_a_follower_counts_when_its_disk_has_it(tmp_path: Path):
    """acks=all is acknowledged when the leader's disk and the follower's have the record, in either order."""

    async def scenario() -> None:
        async with stage(tmp_path, brokers=2) as place:
            await place.create(2)
            client = await place.client(1)
            leader, follower = place.threads[1], place.threads[2]
            client.produce(b"a")
            await until(lambda: leader.waiting)
            leader.release()
            await until(lambda: follower.waiting)
            answer = await stays_silent(client.produced())
            follower.release()
            assert await asyncio.wait_for(answer, 60) == raw.Produced(raw.NONE, 0)

    play(scenario())
