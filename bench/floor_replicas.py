"""The leader and the followers of `bench.floor`: what replication costs when there is nothing else to do.

A client sends a length and a payload. The leader writes the payload to its file, and answers when both
followers have fetched beyond it. A follower sends the offset where its own file ends, and gets what comes
after it as soon as there is something. No topics, headers, CRCs, indexes, time-outs, limits or errors: plain
sockets and `pwrite`, on the event loop that the broker uses.

    python -m bench.floor_replicas leader FILE            prints the ports of clients and of followers
    python -m bench.floor_replicas follower FILE PORT     PORT: the leader's, of followers
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import cast

from tidelog.event_loop import run

_SIZE = Struct(">i")
_OFFSET = Struct(">q")
ROOM_BYTES = 4 << 20
"""More than the largest frame: a connection reads into one buffer, again and again."""
FOLLOWERS = 2


class Frames(asyncio.BufferedProtocol):
    """Passes each frame on as its own bytes."""

    def __init__(self, on_frame: Callable[[Frames, bytes], None]) -> None:
        self._on_frame = on_frame
        self._buffer = memoryview(bytearray(ROOM_BYTES))
        self._filled = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        end, start = self._filled + nbytes, 0
        while end - start >= 4:
            stop = start + 4 + _SIZE.unpack_from(self._buffer, start)[0]
            if stop > end:
                break
            self._on_frame(self, bytes(self._buffer[start + 4 : stop]))
            start = stop
        if start and start < end:
            self._buffer[: end - start] = bytes(self._buffer[start:end])
        self._filled = end - start

    def send(self, payload: bytes) -> None:
        self.transport.writelines([_SIZE.pack(len(payload)), payload])


class Leader:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._end = 0
        self._unacknowledged: deque[tuple[int, bytes, Frames]] = deque()
        """The end of each payload that a follower lacks, the payload, and its sender."""
        self._followers: dict[Frames, int] = {}
        self._parked: set[Frames] = set()

    def produce(self, client: Frames, payload: bytes) -> None:
        os.pwrite(self._descriptor, payload, self._end)
        self._end += len(payload)
        self._unacknowledged.append((self._end, payload, client))
        parked, self._parked = self._parked, set()
        for follower in parked:
            self._answer(follower)

    def fetch(self, follower: Frames, request: bytes) -> None:
        (self._followers[follower],) = _OFFSET.unpack(request)
        if self._followers[follower] < self._end:
            self._answer(follower)
        else:
            self._parked.add(follower)
        if len(self._followers) == FOLLOWERS:
            committed = min(self._followers.values())
            while self._unacknowledged and self._unacknowledged[0][0] <= committed:
                end, _, client = self._unacknowledged.popleft()
                client.send(_OFFSET.pack(end))

    def _answer(self, follower: Frames) -> None:
        offset = self._followers[follower]
        follower.send(b"".join(payload for end, payload, _ in self._unacknowledged if end > offset))


class Follower:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._end = 0

    def received(self, leader: Frames, payload: bytes) -> None:
        os.pwrite(self._descriptor, payload, self._end)
        self._end += len(payload)
        self.ask(leader)

    def ask(self, leader: Frames) -> None:
        leader.send(_OFFSET.pack(self._end))


async def lead(descriptor: int) -> None:
    leader, loop = Leader(descriptor), asyncio.get_running_loop()
    servers = [
        await loop.create_server(lambda take=take: Frames(take), "127.0.0.1", 0)
        for take in (leader.produce, leader.fetch)
    ]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.Event().wait()


async def follow(descriptor: int, port: int) -> None:
    follower, loop = Follower(descriptor), asyncio.get_running_loop()
    _, leader = await loop.create_connection(lambda: Frames(follower.received), "127.0.0.1", port)
    follower.ask(leader)
    await asyncio.Event().wait()


def main(role: str, path: str, *port: str) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    run(lead(descriptor) if role == "leader" else follow(descriptor, int(port[0])))


if __name__ == "__main__":
    main(*sys.argv[1:])
