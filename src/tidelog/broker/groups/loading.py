"""Reads a partition of ``__consumer_offsets`` from its beginning to where it ended when we became its leader.

As a consumer reads it, so up to the high watermark and no further: nobody is told of a position that a
fail-over could still take back. A piece at a time, so that a long log does not stop the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tidelog.core.messages import CONSUMER, FetchRequest, FetchResponse
from tidelog.core.types import NO_EPOCH, Offset, TopicPartition
from tidelog.groups.records import GroupRecord, PositionRecord, read_entry
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.records import RecordBatch, read_records

if TYPE_CHECKING:
    from tidelog.broker.node import Node

PIECE_BYTES = 256 * 1024
WAIT_MS = 1_000
RETRY_SECONDS = 1.0


class Loading:
    def __init__(
        self,
        node: Node,
        tp: TopicPartition,
        load: Callable[[GroupRecord | PositionRecord], None],
        finish: Callable[[], None],
    ) -> None:
        log = node.core.replicas[tp].log
        self._node = node
        self._tp = tp
        self._load = load
        self._finish = finish
        self._next: Offset = log.start_offset
        self._end: Offset = log.end_offset
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.Handle | None = None
        self._given_up = False
        self.records = 0

    def give_up(self) -> None:
        self._given_up = True
        if self._again is not None:
            self._again.cancel()

    def go_on(self) -> None:
        if self._next >= self._end:
            self._finish()
            return
        request = FetchRequest(self._tp, CONSUMER, self._next, NO_EPOCH, WAIT_MS, max_bytes=PIECE_BYTES)
        self._node.ask(self, request)

    def _go_on_by_itself(self) -> None:
        self._again = None
        self.go_on()
        self._node.settle()

    def deliver(self, response: FetchResponse) -> None:
        if self._given_up or response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return
        if response.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._next = self._node.core.replicas[self._tp].log.start_offset
        elif response.error is not ErrorCode.NONE:
            # A coordinator that does not know all would hand out old positions: better none, until it can.
            self._node.log.error("cannot read %s: %s; trying again", self._tp, response.error.name)
            self._again = self._loop.call_later(RETRY_SECONDS, self._go_on_by_itself)
            return
        for batch in response.batches:
            assert isinstance(batch, RecordBatch)
            self._next = batch.next_offset
            for record in self._records_of(batch):
                self._load(record)
                self.records += 1
        if not response.batches and response.error is ErrorCode.NONE:
            # Either our time was up, or everything up to the high watermark has been compacted away.
            self._next = max(self._next, response.high_watermark)
        self._again = self._loop.call_soon(self._go_on_by_itself)

    def _records_of(self, batch: RecordBatch) -> Iterator[GroupRecord | PositionRecord]:
        if batch.is_control:
            return
        try:
            for record in read_records(batch):
                read = read_entry(record.key, record.value)
                if read is not None:
                    yield read
        except ProtocolError as error:
            # Some client wrote this: a coordinator would not have.
            self._node.log.warning("passed over records of %s at %s: %s", self._tp, batch.base_offset, error)
