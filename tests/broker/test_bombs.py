"""A small request that asks for very much is refused, or served between others: a broker inside the test.

How long anything takes is not measured here (a crowded machine is slow, not wrong); it is counted what is
looked into, and looked at what is answered first.
"""

import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.broker.in_process import Client, Stage, stage
from tests.clients import raw
from tests.storage.bombs import bomb

from tidelog.broker import connection, slices
from tidelog.storage.log.keyed_records import KEYLESS_MAX, RECORDS_MAX
from tidelog.wire.errors import ErrorCode

LIST_OFFSETS = 2
TABLE, LOG = "table", "log"
FAR = 1 << 50


def play(folder: Path, scene: Callable[[Stage, Client], Coroutine[Any, Any, None]]) -> None:
    """A compacted topic and a plain one on one broker."""

    async def run() -> None:
        async with stage(folder) as one:
            one.threads[1].release_all_from_now_on()
            await one.create(1, TABLE, cleanup_policy="compact")
            await one.create(1, LOG)
            await scene(one, await one.client(1))

    uvloop.run(run())


def produce(client: Client, topic: str, records: bytes) -> None:
    client.send(raw.PRODUCE, raw.PRODUCE_VERSION, raw.produce_body(topic, records, acks=1))


async def answer_to(client: Client, topic: str, records: bytes) -> tuple[ErrorCode, int]:
    produce(client, topic, records)
    produced = await client.produced()
    return ErrorCode(produced.error), produced.base_offset


async def found_at(client: Client, timestamp: int) -> tuple[int, int]:
    """What ListOffsets says of the plain topic: timestamp and offset."""
    body = struct.pack(">ii", -1, 1) + raw.string(LOG) + struct.pack(">iiq", 1, 0, timestamp)
    client.send(LIST_OFFSETS, 1, body)
    fields = await client.answer()
    assert (fields.int32(), fields.string(), fields.int32(), fields.int32()) == (1, LOG, 1, 0)
    assert fields.int16() == raw.NONE
    return fields.int64(), fields.int64()


def test_a_batch_of_too_many_records_for_a_compacted_topic(tmp_path: Path):
    """11 kilobytes can hold millions of records, which would take a minute and gigabytes. The broker refuses
    them by their count, with the error at which producers split their batches."""
    data = bytes(bomb(RECORDS_MAX + 1).data)
    assert len(data) < 11_540

    async def scene(_: Stage, client: Client) -> None:
        assert await answer_to(client, TABLE, data) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
        assert await answer_to(client, LOG, data) == (ErrorCode.NONE, 0)
        assert await answer_to(client, TABLE, bytes(bomb(3).data)) == (ErrorCode.NONE, 0)

    play(tmp_path, scene)


def test_a_count_that_is_a_lie(tmp_path: Path):
    async def scene(_: Stage, client: Client) -> None:
        lie = bytes(bomb(10, claimed=200_000).data)
        assert await answer_to(client, TABLE, lie) == (ErrorCode.CORRUPT_MESSAGE, -1)

    play(tmp_path, scene)


def test_keyless_records_of_a_long_batch(tmp_path: Path):
    """Refused, and the answer does not grow with them."""

    async def scene(_: Stage, client: Client) -> None:
        body = raw.produce_body(TABLE, bytes(bomb(RECORDS_MAX, key=None).data), acks=1)
        client.send(raw.PRODUCE, 8, body)
        fields = await client.answer()
        assert (fields.int32(), fields.string(), fields.int32(), fields.int32()) == (1, TABLE, 1, 0)
        assert fields.int16() == raw.INVALID_RECORD
        (fields.int64(), fields.int64(), fields.int64())
        assert fields.int32() == KEYLESS_MAX

    play(tmp_path, scene)


def test_a_long_batch_is_looked_through_while_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Only the next requests of the same client wait for it."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(connection, "SLICE_SECONDS", 0.0)

    async def scene(one: Stage, client: Client) -> None:
        other = await one.client(1)
        produce(client, TABLE, bytes(bomb(RECORDS_MAX).data))
        produce(client, TABLE, bytes(bomb(1).data))
        await other.ping()
        assert await answer_to(other, TABLE, bytes(bomb(1).data)) == (ErrorCode.NONE, 0)
        assert (await client.produced()).base_offset == 1
        assert (await client.produced()).base_offset == 1 + RECORDS_MAX

    play(tmp_path, scene)


def test_a_time_is_looked_for_behind_a_lie(tmp_path: Path):
    """A header that promises a younger record than there is makes the search go on; a batch that is too large
    to be looked into is dated by its header."""

    async def scene(_: Stage, client: Client) -> None:
        liar, honest = bomb(2_000, max_timestamp=FAR), bomb(1, timestamp=5_000)
        assert await answer_to(client, LOG, bytes(liar.data)) == (ErrorCode.NONE, 0)
        assert await answer_to(client, LOG, bytes(honest.data)) == (ErrorCode.NONE, 2_000)
        assert await found_at(client, 1_000) == (1_000, 0)
        assert await found_at(client, 1_001) == (5_000, 2_000)
        assert await found_at(client, 5_001) == (-1, -1)
        huge = bomb(RECORDS_MAX + 1, max_timestamp=FAR)
        assert await answer_to(client, LOG, bytes(huge.data)) == (ErrorCode.NONE, 2_001)
        assert await found_at(client, 5_001) == (FAR, 2_001)

    play(tmp_path, scene)


def test_the_offsets_of_groups_are_written_by_coordinators_only(tmp_path: Path):
    """Also if a client created the topic: a coordinator reads everything in it."""

    async def scene(one: Stage, client: Client) -> None:
        await one.create(1, "__consumer_offsets", cleanup_policy="delete")
        refused = await answer_to(client, "__consumer_offsets", bytes(bomb(1).data))
        assert refused == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)

    play(tmp_path, scene)
