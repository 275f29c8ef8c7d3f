"""What a coordinator writes, gathered: everything of one turn of the event loop is one batch of the log.

Each append costs a pass through the leader, a turn of every follower's fetch and a batch header, whether it
holds one position or a hundred. Consumers commit alone, but many of them at the same time. Order is kept: a
later write is never in an earlier batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tidelog.core.messages import ACKS_ALL, ProduceRequest, ProduceResponse
from tidelog.core.types import TopicPartition
from tidelog.groups.context import Write
from tidelog.wire.batch import RecordBatch
from tidelog.wire.errors import ErrorCode
from tidelog.wire.records import Record, build_batch

if TYPE_CHECKING:
    from tidelog.broker.node import Node

RECORD_OVERHEAD_BYTES = 40
"""More than what goes with key and value, so that a sum of estimates is never too small."""
GATHERED_BYTES_MAX = 64 * 1024
"""Larger batches gain nothing more, and stay below whatever the topic allows."""

Written = Callable[[int, ErrorCode], None]
"""Told the number of a write and its fate."""


class Appending:
    def __init__(
        self, node: Node, tp: TopicPartition, may_write: Callable[[], bool], written: Written
    ) -> None:
        self._node = node
        self._tp = tp
        self._may_write = may_write
        self._written = written
        self._gathered: list[Write] = []
        self._loop = asyncio.get_running_loop()
        self._since = 0.0

    def add(self, write: Write) -> None:
        if not self._gathered:
            # After all that is ready to be read: other connections may bring more.
            self._loop.call_soon(self._append)
            self._since = self._loop.time()
        self._gathered.append(write)

    def _append(self) -> None:
        writes, self._gathered = self._gathered, []
        if self._may_write():
            for batch in _batches(writes):
                self._append_batch(batch)
        else:
            self._fail(writes, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._node.settle()

    def _append_batch(self, writes: list[Write]) -> None:
        node = self._node
        now = node.time_ms()
        records = [
            Record(timestamp=now, key=key, value=value) for write in writes for key, value in write.entries
        ]
        batch = RecordBatch.parse(bytearray(build_batch(records)))
        if batch.size > node.topics.of(self._tp.topic).max_message_bytes:
            self._fail(writes, ErrorCode.MESSAGE_TOO_LARGE)
            return
        timeout = node.settings.offsets_commit_timeout_ms
        waiter = _Appended(self, [write.number for write in writes], self._since)
        node.ask(waiter, ProduceRequest(self._tp, ACKS_ALL, batch, timeout))

    def appended(self, numbers: list[int], error: ErrorCode, since: float) -> None:
        if error is ErrorCode.NONE:
            self._node.metrics.group_writes.add((self._loop.time() - since) * 1e6)
        for number in numbers:
            self._written(number, error)

    def _fail(self, writes: list[Write], error: ErrorCode) -> None:
        for write in writes:
            self._written(write.number, error)


class _Appended:
    """Where the fate of one batch is told."""

    __slots__ = ("_appending", "_numbers", "_since")

    def __init__(self, appending: Appending, numbers: list[int], since: float) -> None:
        self._appending = appending
        self._numbers = numbers
        self._since = since

    def deliver(self, response: ProduceResponse) -> None:
        self._appending.appended(self._numbers, response.error, self._since)


def _batches(writes: list[Write]) -> Iterator[list[Write]]:
    """Cut where a batch would grow too large. One write is never cut: it counts as a whole or not at all."""
    batch: list[Write] = []
    batch_bytes = 0
    for write in writes:
        size = sum(len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES for key, value in write.entries)
        if batch and batch_bytes + size > GATHERED_BYTES_MAX:
            yield batch
            batch, batch_bytes = [], 0
        batch.append(write)
        batch_bytes += size
    if batch:
        yield batch
