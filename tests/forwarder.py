"""A TCP forwarder that a test can make misbehave: the network between a client and a server."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType


class Forwarder:
    """Listens on a port of its own and passes everything on, until a fault is set."""

    def __init__(self, host: str, port: int) -> None:
        self.target = host, port
        """For connections to come."""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = True
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.port = 0
        self.accepted = 0
        """How many connections there have been."""

    async def __aenter__(self) -> "Forwarder":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.thaw()
        self.cut()
        await until(lambda: not self._tasks, "the end of every connection")

    def drop(self) -> None:
        """Break every connection there is; new ones are welcome."""
        for writer in list(self._writers):
            writer.transport.abort()

    def cut(self) -> None:
        """Break every connection, and each new one at once, until ``mend``."""
        self._open = False
        self.drop()

    def mend(self) -> None:
        self._open = True

    def freeze(self) -> None:
        """Connections stay, and nothing comes through, until ``thaw``: a network that swallows packets."""
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        self._writers.add(writer)
        try:
            if not self._open:
                return
            server_reader, server_writer = await asyncio.open_connection(*self.target)
            self._writers.add(server_writer)
            try:
                await _first_of(self._pass(reader, server_writer), self._pass(server_reader, writer))
            finally:
                self._writers.discard(server_writer)
                server_writer.transport.abort()
        except OSError:
            pass
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            await self._flowing.wait()
            target.write(data)
            await target.drain()


async def _first_of(*work: Awaitable[None]) -> None:
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], bool], what: str = "", within_s: float = 60.0) -> None:
    """Look until it is so. The deadline is for a test that would otherwise hang; no claim rests on it."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"timed out: {what}"
        await asyncio.sleep(0.005)
