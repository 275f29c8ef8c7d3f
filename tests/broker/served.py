"""The listening side of a broker in the test's own event loop, with handlers of the test's choice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from struct import unpack
from typing import Any

import uvloop
from bench.processes import PATIENCE_SECONDS

from tidelog.broker.metrics.counters import Metrics
from tidelog.broker.server import Handler, Limits, Server
from tidelog.wire.api import Api, decode_response, encode_request


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self, api: Api, version: int) -> tuple[int, Any]:
        """The next answer, to a request of that API: its correlation id and its body."""
        (size,) = unpack(">i", await self.reader.readexactly(4))
        return decode_response(api, version, await self.reader.readexactly(size))

    async def is_closed(self) -> bool:
        """Wait until the server says something or hangs up, and tell which."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionResetError:
            return True


class Running:
    """A server that listens, and its clients."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self._port = port
        self._clients: list[Client] = []

    async def client(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self._port))
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            client.writer.transport.abort()
        await self.server.close()
        await until(lambda: not self.server.connections)


def on_server(
    scene: Callable[[Running], Coroutine[Any, Any, None]],
    handlers: Mapping[int, Handler],
    limits: Limits = Limits(),  # noqa: B008  # it is frozen
    *,
    starting: bool = False,
) -> None:
    """Play the scene, and close everything afterwards. ``starting``: clients are not served yet."""
    violations: list[str] = []

    async def run() -> None:
        def settle() -> None:
            server.flush()

        server = Server(dict(handlers), limits, Metrics(), settle, violations.append)
        running = Running(server, await server.listen("127.0.0.1", 0))
        await server.serve()
        if not starting:
            server.open()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await scene(running)
        finally:
            await running.close()

    uvloop.run(run())
    assert not violations


def framed(api: Api, version: int, body: Any, correlation_id: int = 1) -> bytes:
    return b"".join(encode_request(api, version, correlation_id, "test", body))


async def until(check: Callable[[], Any]) -> None:
    """Let the loop turn until it is true."""
    while not check():
        await asyncio.sleep(0)
