"""Brokers that run inside the test, on real files and real connections, with a keeper in memory.

Their threads do no work until the test releases it: so a sync takes as long as the test wants.
``release_all_from_now_on`` makes them ordinary ones.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.processes import PATIENCE_SECONDS
from tests.clients import raw
from tests.clients.raw import Fields
from tests.forwarder import Forwarder

from tidelog.broker.node import Node
from tidelog.broker.process import assemble, register
from tidelog.core.log_port import StorageFailure
from tidelog.core.types import TopicPartition
from tidelog.keeper.client import KeeperConnection, connect
from tidelog.keeper.embedded.server import EmbeddedKeeper
from tidelog.settings.loading import settle
from tidelog.settings.properties import Property
from tidelog.settings.topic import topic_defaults
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

    def __init__(
        self,
        keeper: EmbeddedKeeper,
        line: Forwarder,
        folder: Path,
        leaving: AsyncExitStack,
        settings: Mapping[str, str],
    ) -> None:
        self.keeper = keeper
        self.keeper_line = line
        """To the keeper, of all brokers."""
        self._folder = folder
        self._leaving = leaving
        self._settings = settings
        self.nodes: dict[int, Node] = {}
        self.threads: dict[int, HeldBack] = {}

    @property
    def _url(self) -> str:
        return f"embedded://127.0.0.1:{self.keeper_line.port}"

    async def keeper_client(self) -> KeeperConnection:
        """A session with the keeper that is not a broker's."""
        keeper = connect(self._url)
        keeper.start(lambda notice: None)
        self._leaving.push_async_callback(keeper.close)
        return keeper

    async def start(self, number: int) -> Node:
        url = self._url
        values = {
            "broker.id": str(number),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self._folder / str(number)),
            "tidelog.keeper": url,
            "tidelog.evidence.dir": str(self._folder / "events"),
            **self._settings,
        }
        settings = settle(Property(name, value, "test") for name, value in values.items()).settings
        storage = FileStorage(settings.log_dirs, broker_id=number, defaults=topic_defaults(settings))
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

    async def create(self, replicas: int | Sequence[int], topic: str = TOPIC, **settings: str) -> None:
        """Made by the controller; done when all brokers know the leader, the first of the replicas."""
        if isinstance(replicas, int):
            replicas = range(1, replicas + 1)
        client = await self.client(1)
        config = b"".join(
            raw.string(name.replace("_", ".")) + raw.string(value) for name, value in settings.items()
        )
        assigned = b"".join(struct.pack(">i", number) for number in replicas)
        body = (
            struct.pack(">i", 1)
            + raw.string(topic)
            + struct.pack(">ih", -1, -1)
            + struct.pack(">iii", 1, 0, len(replicas))
            + assigned
            + struct.pack(">i", len(settings))
            + config
            + struct.pack(">i", 10_000)
        )
        client.send(19, 0, body)
        fields = await client.answer()
        assert (fields.int32(), fields.string(), fields.int16()) == (1, topic, 0)
        tp = TopicPartition(topic, 0)
        await until(lambda: self.nodes[replicas[0]].leads(tp))
        await until(lambda: all(tp in self.nodes[n].core.replicas for n in replicas))


@asynccontextmanager
async def stage(folder: Path, brokers: int = 1, **settings: str) -> AsyncIterator[Stage]:
    """Settings by their names, with underscores in the place of dots."""
    keeper = EmbeddedKeeper(None)
    await keeper.start()
    try:
        async with Forwarder("127.0.0.1", keeper.port) as line, AsyncExitStack() as leaving:
            given = {name.replace("_", "."): value for name, value in settings.items()}
            set_up = Stage(keeper, line, folder, leaving, given)
            for number in range(1, brokers + 1):
                await set_up.start(number)
            await until(lambda: all(len(n.core.metadata.endpoints) == brokers for n in set_up.nodes.values()))
            yield set_up
    finally:
        await keeper.stop()


async def until(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not check():
            await asyncio.sleep(0.005)
