"""Both ends of a relayed connection in a test's own hands: frames in and out of plain sockets."""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from bench.processes import PATIENCE_SECONDS

from tidelog.faults.places import Channel
from tidelog.wire.api import Api

HANG_MS = 100.0

FETCH, PRODUCE = Api.FETCH, Api.PRODUCE
BOTH = [(1, 0), (0, 1)]
FETCHES = Channel("fetch", 1, 0)
REPLIES = Channel("fetch-reply", 0, 1)

Answer = TypeVar("Answer")
Link = Callable[[], "tuple[Wire, Wire]"]


def eventually(check: Callable[[], Answer], what: str = "") -> Answer:
    """Ask until the answer is true, and return it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := check()):
        assert time.monotonic() < deadline, f"it does not become true: {what} (last: {answer!r})"
        time.sleep(0.002)
    return answer


class Wire:
    """One end of a connection."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.socket.settimeout(PATIENCE_SECONDS)

    @classmethod
    def to(cls, address: tuple[str, int]) -> Wire:
        return cls(socket.create_connection(address, PATIENCE_SECONDS))

    def send(self, body: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def ask(self, api: int, correlation: int, rest: bytes = b"", *, version: int = 0) -> None:
        self.send(struct.pack(">hhi", api, version, correlation) + rest)

    def answer(self, correlation: int, rest: bytes = b"") -> None:
        self.send(struct.pack(">i", correlation) + rest)

    def frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def request(self) -> tuple[int, int, bytes]:
        """API, correlation id, and what follows."""
        frame = self.frame()
        api, _, correlation = struct.unpack_from(">hhi", frame)
        return api, correlation, frame[8:]

    def reply(self) -> tuple[int, bytes]:
        frame = self.frame()
        return struct.unpack_from(">i", frame)[0], frame[4:]

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            assert more, f"the connection ended after {data!r}"
            data += more
        return data

    @property
    def has_something(self) -> bool:
        """Bytes to read, or the end."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def ended(self) -> str:
        """How the connection ends: by an orderly ``end`` or a ``reset``. Waits for it."""
        try:
            return "end" if self.socket.recv(1) == b"" else "data"
        except ConnectionResetError:
            return "reset"

    def close(self) -> None:
        self.socket.close()


class Server:
    """A node's real address. Accepts only when asked to."""

    def __init__(self, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self._listener.settimeout(PATIENCE_SECONDS)
        self.address: tuple[str, int] = self._listener.getsockname()

    def accept(self) -> Wire:
        return Wire(self._listener.accept()[0])

    def close(self) -> None:
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Attempt:
    """A connection that is being made."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        outcome = self.socket.connect_ex(address)
        assert outcome in (0, errno.EINPROGRESS, errno.ECONNREFUSED), errno.errorcode[outcome]

    def outcome(self, within_s: float) -> str:
        """``connected``, ``refused``, or ``hangs`` if nothing is known in time."""
        if not select.select([], [self.socket], [], within_s)[1]:
            return "hangs"
        error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return {0: "connected", errno.ECONNREFUSED: "refused"}.get(error, errno.errorcode.get(error, "?"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()


def attempt(address: tuple[str, int], within_s: float) -> str:
    """What becomes of a connection; it is closed at once."""
    with Attempt(address) as made:
        return made.outcome(within_s)


def exchange(one: Wire, zero: Wire, correlation: int = 7) -> None:
    """A request and its answer go through."""
    one.ask(FETCH, correlation)
    assert zero.request()[:2] == (FETCH, correlation)
    zero.answer(correlation)
    assert one.reply()[0] == correlation
