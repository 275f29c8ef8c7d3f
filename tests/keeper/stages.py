"""The three keepers behind one face, with power over the connections to them: for the contract tests."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient  # type: ignore[import-untyped]
from tests.forwarder import Forwarder, until
from tests.keeper.local import LocalConnection, LocalKeeper

from tidelog.core.effects import KeeperCall
from tidelog.core.keeper_port import (
    Get,
    KeeperReply,
    Operation,
    Result,
    SessionResumed,
    SessionStarted,
    WatchFired,
)
from tidelog.keeper.client import KeeperConnection, Notice, connect
from tidelog.keeper.embedded.client import RemoteConnection
from tidelog.keeper.embedded.server import EmbeddedKeeper
from tidelog.keeper.zookeeper.connection import ZooKeeperConnection

LONG_MS = 60_000
"""A session that does not expire while a loaded machine catches its breath."""


class Client:
    """A connection, everything it ever said, and the line it says it on."""

    def __init__(self, connection: KeeperConnection, line: Forwarder | None = None) -> None:
        self.connection = connection
        self.line = line
        self.notices: list[Notice] = []
        self._calls = 0

    def start(self) -> None:
        self.connection.start(self.notices.append)

    # ------------------------------------------------------------ asking

    def call(self, operation: Operation) -> int:
        self._calls += 1
        self.connection.call(KeeperCall(self._calls, operation))
        return self._calls

    async def ask(self, operation: Operation) -> Result:
        """Call, and wait for the reply."""
        number = self.call(operation)
        await until(lambda: number in self.replies, f"an answer to {operation}")
        return self.replies[number]

    async def do(self, operation: Operation) -> Result:
        result = await self.ask(operation)
        assert result.ok, (operation, result)
        return result

    # ------------------------------------------------------------ what was said

    @property
    def replies(self) -> dict[int, Result]:
        return {n.call: n.result for n in self.notices if isinstance(n, KeeperReply)}

    @property
    def fired(self) -> list[WatchFired]:
        return [notice for notice in self.notices if isinstance(notice, WatchFired)]

    @property
    def sessions(self) -> list[int]:
        return [notice.session for notice in self.notices if isinstance(notice, SessionStarted)]

    @property
    def times_resumed(self) -> int:
        return sum(isinstance(notice, SessionResumed) for notice in self.notices)

    async def hears(self, count: int) -> list[WatchFired]:
        """Wait for this many watches to have fired since the start."""
        await until(lambda: len(self.fired) >= count, f"{count} watches, heard {self.fired}")
        return self.fired

    async def settle(self) -> None:
        """Whatever the keeper had to say by now has been heard: it speaks to a session in order."""
        await self.connection.request(_NOTHING)


class Stage(AbstractAsyncContextManager["Stage"]):
    def __init__(self) -> None:
        self._leaving = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leaving.aclose()

    async def client(self, timeout_ms: int = LONG_MS) -> Client:
        """Connected, with its session announced."""
        client = await self.unconnected(timeout_ms)
        await until(lambda: bool(client.sessions), "a session")
        return client

    async def unconnected(
        self, timeout_ms: int = LONG_MS, *, cut: bool = False, started: bool = True
    ) -> Client:
        """``cut``: with a line that is cut."""
        client = await self._make(timeout_ms)
        if cut:
            self.cut(client)
        if started:
            client.start()
        self._leaving.push_async_callback(client.connection.close)
        return client

    @abstractmethod
    async def _make(self, timeout_ms: int) -> Client: ...

    @abstractmethod
    def cut(self, client: Client) -> None:
        """Break the connection until ``mend``."""

    @abstractmethod
    def mend(self, client: Client) -> None: ...

    @abstractmethod
    async def expire(self, client: Client) -> None:
        """End the session of a client behind its back, as its time running out would."""


class LocalStage(Stage):
    def __init__(self) -> None:
        super().__init__()
        self.keeper = LocalKeeper()

    async def _make(self, timeout_ms: int) -> Client:
        return Client(self.keeper.connect())

    def cut(self, client: Client) -> None:
        _local(client).break_off()

    def mend(self, client: Client) -> None:
        _local(client).reach()

    async def expire(self, client: Client) -> None:
        self.keeper.expire(_local(client).session)


def _local(client: Client) -> LocalConnection:
    assert isinstance(client.connection, LocalConnection)
    return client.connection


class NetworkedStage(Stage):
    """Each client has a line of its own."""

    async def _make(self, timeout_ms: int) -> Client:
        host, port = self.address()
        line = await self._leaving.enter_async_context(Forwarder(host, port))
        return Client(connect(self.url(line.port), timeout_ms), line)

    @abstractmethod
    def address(self) -> tuple[str, int]: ...

    @abstractmethod
    def url(self, port: int) -> str: ...

    @abstractmethod
    async def put(self, path: str, stored: bytes) -> None:
        """Create a node with arbitrary bytes."""

    def cut(self, client: Client) -> None:
        assert client.line is not None
        client.line.cut()

    def mend(self, client: Client) -> None:
        assert client.line is not None
        client.line.mend()


class EmbeddedStage(NetworkedStage):
    def __init__(self, data_dir: Path | None) -> None:
        super().__init__()
        self.keeper = EmbeddedKeeper(data_dir, session_timeout_min_ms=100)

    async def __aenter__(self) -> Self:
        await self.keeper.start()
        self._leaving.push_async_callback(self.keeper.stop)
        return self

    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.keeper.port

    def url(self, port: int) -> str:
        return f"embedded://127.0.0.1:{port}"

    async def put(self, path: str, stored: bytes) -> None:
        from tests.keeper.embedded.raw import RawClient

        async with RawClient(self.keeper.port) as raw:
            await raw.greet()
            await raw.ask(["create", path, stored.decode(), False, False])

    async def expire(self, client: Client) -> None:
        """Take up the session from elsewhere, and close it."""
        connection = client.connection
        assert isinstance(connection, RemoteConnection)
        thief = RemoteConnection("127.0.0.1", self.keeper.port, LONG_MS)
        thief.session, thief.secret = connection.session, connection.secret
        resumed: list[Notice] = []
        thief.start(resumed.append)
        await until(lambda: bool(resumed), "the session, taken up from elsewhere")
        assert resumed == [SessionResumed()]
        await thief.close()


class ZooKeeperStage(NetworkedStage):
    def __init__(self, url: str) -> None:
        super().__init__()
        hosts, _, self.chroot = url.removeprefix("zookeeper://").partition("/")
        self._host, _, port = hosts.partition(":")
        self._port = int(port)

    def address(self) -> tuple[str, int]:
        return self._host, self._port

    def url(self, port: int) -> str:
        return f"zookeeper://127.0.0.1:{port}/{self.chroot}"

    async def put(self, path: str, stored: bytes) -> None:
        await self.foreign(lambda client: client.create(f"/{self.chroot}{path}", stored))

    async def foreign(self, use: Callable[[Any], Any], client_id: tuple[int, bytes] | None = None) -> Any:
        """The view of an independent client."""

        def run() -> Any:
            client = KazooClient(f"{self._host}:{self._port}", timeout=30, client_id=client_id)
            client.start(30)
            try:
                return use(client)
            finally:
                client.stop()
                client.close()

        return await asyncio.to_thread(run)

    async def expire(self, client: Client) -> None:
        """Take up the session from elsewhere, and close it: what ZooKeeper's own tests do."""
        connection = client.connection
        assert isinstance(connection, ZooKeeperConnection)
        await self.foreign(lambda _: None, client_id=connection._client.client_id)


_NOTHING = Get("/")
