"""Speaks to an embedded keeper byte by byte: what a well-behaved connection would never say."""

import asyncio
import json
import struct
from types import TracebackType
from typing import Any

from bench.processes import PATIENCE_SECONDS

from tidelog.keeper.embedded.protocol import PROTOCOL


class RawClient:
    def __init__(self, port: int) -> None:
        self._port = port
        self._calls = 0

    async def __aenter__(self) -> "RawClient":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.transport.abort()

    def send(self, message: Any) -> None:
        body = json.dumps(message).encode()
        self.writer.write(struct.pack(">I", len(body)) + body)

    async def receive(self) -> Any:
        (length,) = struct.unpack(">I", await self.reader.readexactly(4))
        return json.loads(await self.reader.readexactly(length))

    async def greet(self, session: int = 0, secret: str = "", timeout_ms: int = 60_000) -> Any:
        self.send({"hello": PROTOCOL, "timeout_ms": timeout_ms, "session": session, "secret": secret})
        return await self.receive()

    async def ask(self, operation: list[Any]) -> Any:
        """The result of an operation, past whatever else is said meanwhile."""
        self._calls += 1
        self.send({"call": self._calls, "operation": operation})
        while True:
            message = await self.receive()
            if message.get("reply") == self._calls:
                return message["result"]

    async def closed(self) -> bool:
        """The keeper hangs up; False if it says something instead."""
        try:
            return await asyncio.wait_for(self.reader.read(1), PATIENCE_SECONDS) == b""
        except ConnectionError:
            return True
