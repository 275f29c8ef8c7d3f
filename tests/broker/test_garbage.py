"""What requests leave behind in memory if no garbage collector comes by.

Brokers let it come rarely. A circle of references keeps a request of perhaps a hundred megabytes until then.
"""

from __future__ import annotations

import asyncio
import gc
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.broker.in_process import TOPIC, Client, Stage, stage, until
from tests.clients import raw
from tests.wire.values import samples

from tidelog.broker.apis import offered
from tidelog.broker.coordinators import coordinators
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.types import TopicPartition
from tidelog.groups.records import TOPIC as OFFSETS_TOPIC
from tidelog.wire.api import encode_request
from tidelog.wire.api_keys import schema_of

OURS = ("tidelog.broker", "tidelog.core.messages", "tidelog.groups", "tidelog.wire")
JOIN, FIND_COORDINATOR = 11, 10
SAMPLES = 2


@contextmanager
def garbage_counted() -> Iterator[Counter[str]]:
    """Everything of ours that only a collector would have found."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found.update(name for name in map(_name, gc.garbage) if name.startswith(OURS))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.collect()


def _name(found: Any) -> str:
    named = found if callable(found) and hasattr(found, "__qualname__") else type(found)
    return f"{named.__module__}.{named.__qualname__}"


async def join(client: Client, group: str, session_ms: int) -> int:
    body = raw.string(group) + struct.pack(">ii", session_ms, 60_000) + raw.string("")
    metadata = bytes(10_000)
    body += raw.string("consumer") + struct.pack(">i", 1) + raw.string("range")
    client.send(JOIN, 1, body + struct.pack(">i", len(metadata)) + metadata)
    return (await client.answer()).int16()


async def send_and_hang_up(place: Stage, frame: bytes) -> None:
    """A client may leave before it is answered, and some of these would wait for weeks."""
    _, writer = await asyncio.open_connection("127.0.0.1", place.nodes[1].endpoint.port)
    writer.write(frame)
    writer.close()


def every_request() -> Iterator[bytes]:
    """In the oldest and the newest version that clients are offered, with the values of the codecs' tests."""
    for listed in offered():
        known = schema_of(listed.api_key)
        for version in {known.versions[0], known.versions[-1]}:
            for request in samples(known.request, version, known.flexible(version), SAMPLES):
                yield b"".join(map(bytes, encode_request(known.api, version, 1, "me", request)))


def test_a_fetch_whose_client_is_gone_is_forgotten(tmp_path: Path) -> None:
    """Clients choose how long they wait, up to 24 days. One that hangs up does not wait any more."""

    async def scenario() -> None:
        async with stage(tmp_path) as place:
            place.threads[1].release_all_from_now_on()
            await place.create(1)
            role = place.nodes[1].core.replicas[TopicPartition(TOPIC, 0)].role
            assert isinstance(role, LeaderRole)
            waiting = raw.fetch_body(TOPIC, 0, wait_ms_max=2**31 - 1)
            clients = [await place.client(1) for _ in range(3)]
            for client in clients:
                client.send(raw.FETCH, raw.FETCH_VERSION, waiting)
                client.send(raw.FETCH, raw.FETCH_VERSION, waiting)
            await until(lambda: len(role.fetches.parked) == 6)
            for client in clients[1:]:
                client.writer.close()
            await until(lambda: len(role.fetches.parked) == 2)
            clients[0].produce(b"what the first one waits for")
            assert len(raw.fetched(await clients[0].answer()).records) > 0

    asyncio.run(scenario())


def test_requests_are_no_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records written and read, groups joined before and after there is a place for them, and every request
    there is: each is freed with its answer."""
    monkeypatch.setattr(coordinators, "PATIENCE_SECONDS", 0.0)
    frames = list(every_request())  # now, because what is loaded and compiled for it is no request's doing

    async def scenario() -> None:
        async with stage(tmp_path, offsets_topic_replication_factor="1") as place:
            node = place.nodes[1]
            place.threads[1].release_all_from_now_on()
            await place.create(1)
            client = await place.client(1)
            await client.ping()
            there = len(node.server.connections)
            with garbage_counted() as garbage:
                assert await join(client, "too-early", 10_000) == 16  # NOT_COORDINATOR
                client.send(FIND_COORDINATOR, 0, raw.string("g"))
                await client.answer()
                await until(lambda: OFFSETS_TOPIC in node.core.metadata.topics)
                assert await join(client, "refused", 1) == 26  # INVALID_SESSION_TIMEOUT
                await join(client, "taken", 10_000)
                for acks in (-1, 1, 0):
                    client.produce(bytes(10_000), acks)
                    if acks:
                        assert (await client.produced()).error == raw.NONE
                client.produce(b"nowhere", topic="no-such-topic")
                assert (await client.produced()).error == raw.UNKNOWN_TOPIC_OR_PARTITION
                assert len((await client.fetched(0)).records) > 10_000
                client.send(raw.FETCH, raw.FETCH_VERSION, raw.fetch_body(TOPIC, 3, wait_ms_max=20))
                await client.answer()
                for frame in frames:
                    await send_and_hang_up(place, frame)
                await until(lambda: len(node.server.connections) <= there)
            assert not garbage

    asyncio.run(scenario())
