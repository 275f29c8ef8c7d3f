"""tidelog.flush=always: an acknowledged record is on disk, here and on every follower that counts."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.broker import in_process
from tests.broker.in_process import TOPIC, Stage, until
from tests.broker.running import events
from tests.clients import raw

from tidelog.core.types import TopicPartition


def stage(folder: Path, brokers: int = 1) -> AbstractAsyncContextManager[Stage]:
    return in_process.stage(folder, brokers, tidelog_flush="always")


async def stays_silent(answer: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """The task of an answer that cannot come yet: everything that could bring it has been done."""
    task = asyncio.create_task(answer)
    for _ in range(50):
        await asyncio.sleep(0)
    assert not task.done()
    return task


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


# ---------------------------------------------------------------- one broker


@pytest.mark.parametrize("acks", [1, -1])
def test_an_acknowledgement_waits_for_the_disk(tmp_path: Path, acks: int):
    async def scenario() -> None:
        async with stage(tmp_path) as place:
            await place.create(1)
            client, threads = await place.client(1), place.threads[1]
            client.produce(b"a", acks)
            await until(lambda: threads.waiting)
            answer = await stays_silent(client.produced())
            threads.release()
            assert await answer == raw.Produced(raw.NONE, 0)
            log = place.nodes[1].storage.open(TopicPartition(TOPIC, 0))
            assert log.recovery_point == 1

    play(scenario())


def test_one_sync_serves_all_that_came_during_the_one_before(tmp_path: Path):
    """Group commit: however many clients write, a broker waits for its disk once at a time."""

    async def scenario() -> None:
        async with stage(tmp_path) as place:
            await place.create(1)
            threads = place.threads[1]
            clients = [await place.client(1) for _ in range(6)]
            clients[0].produce(b"first")
            await until(lambda: threads.waiting)
            for client in clients[1:]:
                client.produce(b"later")
            log = place.nodes[1].storage.open(TopicPartition(TOPIC, 0))
            await until(lambda: log.end_offset == 6)
            later = [await stays_silent(client.produced()) for client in clients[1:]]
            assert len(threads.waiting) == 1
            threads.release()
            assert (await clients[0].produced()).base_offset == 0
            assert not any(task.done() for task in later)
            assert len(threads.waiting) == 1  # one more for all five
            threads.release()
            answers = await asyncio.gather(*later)
            assert sorted(answer.base_offset for answer in answers) == [1, 2, 3, 4, 5]
            assert not threads.waiting

    play(scenario())


def test_the_order_is_kept(tmp_path: Path):
    """Answers of one connection come in the order of its requests, and offsets with them."""

    async def scenario() -> None:
        async with stage(tmp_path) as place:
            await place.create(1)
            client, threads = await place.client(1), place.threads[1]
            log = place.nodes[1].storage.open(TopicPartition(TOPIC, 0))
            for number in range(9):
                client.produce(str(number).encode(), acks=(1, -1)[number % 2])
                if number == 4:
                    await until(lambda: log.end_offset == 5)
            await until(lambda: log.end_offset == 9)
            threads.release_all_from_now_on()
            assert [(await client.produced()).base_offset for _ in range(9)] == list(range(9))

    play(scenario())


def test_reads_of_what_is_on_disk_go_on(tmp_path: Path):
    """And see nothing of what is not: neither records nor that there are any. Other requests go on, too."""

    async def scenario() -> None:
        async with stage(tmp_path) as place:
            await place.create(1)
            writer, reader, threads = await place.client(1), await place.client(1), place.threads[1]
            writer.produce(b"old")
            await until(lambda: threads.waiting)
            threads.release()
            await writer.produced()
            writer.produce(b"new")
            await until(lambda: threads.waiting)
            await reader.ping()
            old = await reader.fetched(0)
            assert old.high_watermark == 1
            assert b"old" in old.records
            assert b"new" not in old.records
            new = await stays_silent(reader.fetched(1))
            threads.release_all_from_now_on()
            assert b"new" in (await new).records
            assert (await writer.produced()).base_offset == 1

    play(scenario())


def test_a_failed_sync_ends_the_broker_and_acknowledges_nothing(tmp_path: Path):
    """Also for other requests meanwhile, and even if a later sync succeeds: the content of the disk is
    unknown."""

    async def scenario() -> None:
        async with stage(tmp_path) as place:
            await place.create(1)
            await place.create(1, "other", tidelog_flush="roll")
            client, other, threads = await place.client(1), await place.client(1), place.threads[1]
            client.produce(b"a")
            await until(lambda: threads.waiting)
            answer = await stays_silent(client.produced())
            threads.fail()
            await until(place.nodes[1].stopped.is_set)
            threads.release_all_from_now_on()
            other.produce(b"b", topic="other")
            await stays_silent(answer_of(answer))
            await stays_silent(other.produced())
            assert place.nodes[1].failure == (
                "cannot make the log durable: ledger-0 failed: Input/output error; check the disk"
            )
            await place.nodes[1].server.close()
            with pytest.raises(asyncio.IncompleteReadError):
                await answer
        stopped = [row for row in events(tmp_path / "events") if row["event"] == "process_stopped"]
        assert [row["cause"] for row in stopped] == [place.nodes[1].failure]

    play(scenario())


async def answer_of(task: asyncio.Task[Any]) -> None:
    await asyncio.shield(task)


# ---------------------------------------------------------------- two


def test_a_follower_counts_when_its_disk_has_it(tmp_path: Path):
    """acks=all is acknowledged when the leader's disk and the follower's have the record, in either order."""

    async def scenario() -> None:
        async with stage(tmp_path, brokers=2) as place:
            await place.create(2)
            client = await place.client(1)
            leader, follower = place.threads[1], place.threads[2]
            client.produce(b"a")
            await until(lambda: leader.waiting)
            leader.release()
            await until(lambda: follower.waiting)
            answer = await stays_silent(client.produced())
            follower.release()
            assert await asyncio.wait_for(answer, PATIENCE_SECONDS) == raw.Produced(raw.NONE, 0)

    play(scenario())
