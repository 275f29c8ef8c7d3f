"""Group commit for coordinators: the writes of one turn of the event loop become one batch.

Each append costs a pass through the leader, a fetch of every follower and a batch header, whether it holds
one offset or a hundred. Many consumers commit at the same time. Order is kept: a later write is never in an
earlier batch.
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
"""An upper bound of a record's size besides key and value, so that estimates are never too small."""
GATHERED_BYTES_MAX = 64 * 1024
"""Larger batches would gain nothing. This is below any limit of the topic."""

Written = Callable[[int, ErrorCode], None]
"""Called with the number of a write and its result."""


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
            # After all sockets that are ready: other connections may bring more writes.
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
    """Receives the result of one batch."""

    __slots__ = ("_appending", "_numbers", "_since")

    def __init__(self, appending: Appending, numbers: list[int], since: float) -> None:
        self._appending = appending
        self._numbers = numbers
        self._since = since

    def deliver(self, response: ProduceResponse) -> None:
        self._appending.appended(self._numbers, response.error, self._since)


def _batches(writes: list[Write]) -> Iterator[list[Write]]:
    """Split the writes into batches of limited size. One write is never split, because it is atomic."""
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
