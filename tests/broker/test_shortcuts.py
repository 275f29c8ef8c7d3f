"""Requests for one partition are handled without the codec: with the same answers as by their handlers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path

from tests.broker.in_process import TOPIC, Stage, stage

from tidelog.broker.connection import Request
from tidelog.broker.server import Server
from tidelog.storage.background import StepsAndJobs
from tidelog.wire.api import Api, decode_response, encode_request
from tidelog.wire.messages import produce
from tidelog.wire.records import Record, build_batch

RECORDS = build_batch([Record(timestamp=1, key=b"key", value=b"value")])
DAMAGED = RECORDS[:-1] + b"?"
LARGE = build_batch([Record(timestamp=1, key=b"key", value=b"x" * 5_000)])


def request(version: int, topic: str, records: bytes, acks: int, partition: int = 0) -> bytes:
    part = produce.PartitionProduceData(index=partition, records=records)
    topics = [produce.TopicProduceData(name=topic, partition_data=[part])]
    body = produce.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics)
    return b"".join(encode_request(Api.PRODUCE, version, 7, "client", body))


class Watched:
    """Counts what a broker's shortcut of Produce handles."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._shipped = server.shortcuts[Api.PRODUCE]
        self.taken = 0
        self.on()

    def on(self) -> None:
        self._server.shortcuts[Api.PRODUCE] = self._counted

    def off(self) -> None:
        del self._server.shortcuts[Api.PRODUCE]

    def _counted(self, *arguments: object) -> bool:
        taken = self._shipped(*arguments)  # type: ignore[arg-type]  # passed on as they came
        self.taken += taken
        return taken


async def answered(set_up: Stage, frame: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", set_up.nodes[1].endpoint.port)
    try:
        writer.write(frame)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(size)
    finally:
        writer.close()


def on_one_broker(tmp_path: Path, scene: Callable[[Stage, Watched], object]) -> None:
    async def play() -> None:
        async with stage(tmp_path) as set_up:
            set_up.threads[1].release_all_from_now_on()
            await set_up.create(1)
            await set_up.create(1, "small", max_message_bytes="1000")
            await set_up.create(1, "dated", message_timestamp_type="LogAppendTime")
            await scene(set_up, Watched(set_up.nodes[1].server))  # type: ignore[misc]  # a coroutine

    asyncio.run(play())


def test_a_produce_is_answered_as_by_the_handler(tmp_path: Path) -> None:
    async def scene(set_up: Stage, watched: Watched) -> None:
        cases = [(TOPIC, RECORDS, acks, 0) for acks in (-1, 1, 5)] + [
            (TOPIC, DAMAGED, -1, 0),
            (TOPIC, RECORDS * 2, -1, 0),
            (TOPIC, RECORDS, -1, 9),
            ("small", LARGE, -1, 0),
            ("small", RECORDS, -1, 0),
            ("unknown", RECORDS, -1, 0),
            ("__consumer_offsets", RECORDS, -1, 0),
        ]
        for version in range(3, 10):
            for topic, records, acks, partition in cases:
                frame = request(version, topic, records, acks, partition)
                found = []
                for switch in (watched.on, watched.off):
                    switch()
                    number, body = decode_response(Api.PRODUCE, version, await answered(set_up, frame))
                    ((part,),) = ([each.partition_responses for each in body.responses],)
                    part[0].base_offset = min(part[0].base_offset, 0)
                    found.append((number, body))
                assert found[0] == found[1], (version, topic, acks)

    on_one_broker(tmp_path, scene)


def test_what_needs_a_closer_look_takes_no_shortcut(tmp_path: Path) -> None:
    async def scene(set_up: Stage, watched: Watched) -> None:
        for topic, records, taken in (
            (TOPIC, RECORDS, 1),
            (TOPIC, DAMAGED, 0),
            ("small", LARGE, 0),
            ("dated", RECORDS, 0),
            ("small", RECORDS, 1),
        ):
            watched.taken = 0
            await answered(set_up, request(7, topic, records, -1))
            assert watched.taken == taken, topic

    on_one_broker(tmp_path, scene)


def test_a_handler_that_a_test_replaces_gets_every_request(tmp_path: Path) -> None:
    async def scene(set_up: Stage, watched: Watched) -> None:
        server = set_up.nodes[1].server
        handle, seen = server.handlers[Api.PRODUCE], list[Request]()

        def watch(asked: Request) -> StepsAndJobs[None] | None:
            seen.append(asked)
            return handle(asked)

        server.replace(Api.PRODUCE, watch)
        await answered(set_up, request(7, TOPIC, RECORDS, -1))
        assert (len(seen), watched.taken) == (1, 0)
        server.restore(Api.PRODUCE)
        await answered(set_up, request(7, TOPIC, RECORDS, -1))
        assert (len(seen), watched.taken) == (1, 1)

    on_one_broker(tmp_path, scene)
