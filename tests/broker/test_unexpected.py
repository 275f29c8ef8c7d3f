"""A broker that meets a bug goes on, and says so; one that finds its own rules broken ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.keeper.local import LocalKeeper

from tidelog.broker.node import Node
from tidelog.broker.process import assemble, register
from tidelog.core.messages import Message
from tidelog.core.topic_messages import CreateTopicRequest
from tidelog.core.types import BrokerId, InvariantViolation, TopicPartition
from tidelog.settings.loading import settle
from tidelog.settings.properties import parse
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.file_log import FileLog

BROKEN, SOUND = TopicPartition("broken", 0), TopicPartition("sound", 0)


class Buggy(FileStorage):
    """A storage with a bug that can be mended."""

    mended = False

    def open(self, tp: TopicPartition) -> FileLog:
        if tp == BROKEN and not self.mended:
            raise KeyError("a bug")
        return super().open(tp)


@asynccontextmanager
async def broker(tmp_path: Path) -> AsyncIterator[Node]:
    """A broker in this process, its own controller, with a keeper of its own."""
    text = "broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\ntidelog.keeper=embedded://127.0.0.1:1\n"
    text += f"log.dirs={tmp_path / 'logs'}\n"
    settings = settle(parse(text, "broker.properties")).settings
    keeper = LocalKeeper().connect()
    with ThreadPoolExecutor(1) as threads:
        storage = Buggy(settings.log_dirs, broker_id=1)
        node = await assemble(settings, storage, keeper, threads)
        try:
            await register(node, keeper)
            yield node
        finally:
            await node.server.close()
            node.close()
            await keeper.close()
            storage.close()


class Waiter:
    """Takes one answer."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def deliver(self, message: Any) -> None:
        self.answer.set_result(message)


async def ask(node: Node, message: Message) -> Any:
    waiter = Waiter()
    node.ask(waiter, message)
    node.settle()
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await waiter.answer


async def until_led(node: Node, tp: TopicPartition) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not node.leads(tp):
            await asyncio.sleep(0.01)


async def created(node: Node) -> None:
    """One topic whose log meets the bug, and one behind it."""
    await ask(node, CreateTopicRequest(topic=BROKEN.topic, partitions=1, replication_factor=1))
    await ask(node, CreateTopicRequest(topic=SOUND.topic, partitions=1, replication_factor=1))


async def _goes_on(tmp_path: Path) -> int:
    async with broker(tmp_path) as node:
        await created(node)
        await until_led(node, SOUND)
        assert not node.leads(BROKEN)
        Buggy.mended = True
        await until_led(node, BROKEN)
        return node.metrics.unexpected_errors


def test_a_bug_in_a_request_of_the_controller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs its partition. The next topic is led, and so is this one when the bug is gone: the controller
    asks again. Each time the log has a traceback, because this is nothing a user could mend."""
    monkeypatch.setattr(Buggy, "mended", False)
    with caplog.at_level(logging.ERROR):
        met = asyncio.run(_goes_on(tmp_path))
    said = [record for record in caplog.records if record.message == "unexpected error, continuing"]
    assert len(said) == met >= 1
    assert all(record.exc_info and record.exc_info[0] is KeyError for record in said)


async def _hears_on(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        stranger: Any = object()
        node.answered(BrokerId(2), stranger)
        fired = asyncio.Event()

        def fail(_now: int) -> None:
            raise KeyError("a bug")

        node.core.ctx.set_timer(node.now(), fail)
        node.core.ctx.set_timer(node.now(), lambda _: fired.set())
        node.settle()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await fired.wait()
        assert node.metrics.unexpected_errors == 2
        await ask(node, CreateTopicRequest(topic=SOUND.topic, partitions=1, replication_factor=1))
        await until_led(node, SOUND)
        assert not node.stopped.is_set()


def test_a_bug_in_an_answer_or_a_timer(tmp_path: Path) -> None:
    asyncio.run(_hears_on(tmp_path))


async def _ends(tmp_path: Path) -> str:
    def break_(_now: int) -> None:
        raise InvariantViolation("two leaders of one epoch")

    async with broker(tmp_path) as node:
        node.core.ctx.set_timer(node.now(), break_)
        node.settle()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await node.stopped.wait()
        return node.failure


def test_a_broken_invariant_ends_the_broker(tmp_path: Path) -> None:
    """Also where no client has asked for anything."""
    failure = asyncio.run(_ends(tmp_path))
    assert failure == "replication reached a state that its rules exclude: two leaders of one epoch"
