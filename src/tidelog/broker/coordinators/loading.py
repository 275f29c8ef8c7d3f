"""Reads a partition of ``__consumer_offsets`` up to its end when this broker became leader.

It reads like a consumer, only up to the high watermark: a fail-over could still truncate later offsets. It
reads a piece at a time, so that a long log does not block the broker. Only the last record of each key is
decoded: a group commits to the same few keys again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from tidelog.core.messages import CONSUMER, FetchRequest, FetchResponse
from tidelog.core.types import NO_EPOCH, Offset, TopicPartition
from tidelog.groups.records import GroupRecord, PositionRecord, read_entry
from tidelog.wire.batch import RecordBatch
from tidelog.wire.errors import ErrorCode, ProtocolError
from tidelog.wire.records import read_records

if TYPE_CHECKING:
    from tidelog.broker.node import Node

PIECE_BYTES = 256 * 1024
PIECE_RECORDS = 2_000
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
        self._log = log = node.core.replicas[tp].log
        self._node = node
        self._tp = tp
        self._load = load
        self._finish = finish
        self._next: Offset = log.start_offset
        self._end: Offset = log.end_offset
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.Handle | None = None
        self._given_up = False
        self._last: dict[bytes, bytes | None] = {}
        """The last value of each key, in the order of the log."""
        self._decoding: Iterator[tuple[bytes, bytes | None]] | None = None
        self.found_any = False

    def give_up(self) -> None:
        self._given_up = True
        if self._again is not None:
            self._again.cancel()

    def go_on(self) -> None:
        if self._next < self._end:
            request = FetchRequest(self._tp, CONSUMER, self._next, NO_EPOCH, WAIT_MS, max_bytes=PIECE_BYTES)
            self._node.ask(self, request)
            return
        if self._decoding is None:
            self._decoding = iter(self._last.items())
        piece = list(islice(self._decoding, PIECE_RECORDS))
        for key, value in piece:
            self._decode(key, value)
        if len(piece) == PIECE_RECORDS:
            self._again = self._loop.call_soon(self._go_on_by_itself)
        else:
            self.found_any = bool(self._last)
            self._last = {}
            self._finish()

    def _go_on_by_itself(self) -> None:
        self._again = None
        self.go_on()
        self._node.settle()

    def deliver(self, response: FetchResponse) -> None:
        if self._given_up or response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return
        if response.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._next = self._log.start_offset
        elif response.error is not ErrorCode.NONE:
            # A partly loaded coordinator would return old offsets, so retry until all is read.
            self._node.log.error("cannot read %s: %s; trying again", self._tp, response.error.name)
            self._again = self._loop.call_later(RETRY_SECONDS, self._go_on_by_itself)
            return
        for batch in response.batches:
            assert isinstance(batch, RecordBatch)
            self._next = batch.next_offset
            self._note(batch)
        if not response.batches and response.error is ErrorCode.NONE:
            # Either the fetch timed out, or compaction removed everything up to the high watermark.
            self._next = max(self._next, response.high_watermark)
        self._again = self._loop.call_soon(self._go_on_by_itself)

    def _note(self, batch: RecordBatch) -> None:
        if batch.is_control:
            return
        try:
            for record in read_records(batch):
                if record.key is not None:
                    self._last.pop(record.key, None)
                    self._last[record.key] = record.value
        except ProtocolError as error:
            self._pass_over(f"a batch at {batch.base_offset}: {error}")

    def _decode(self, key: bytes, value: bytes | None) -> None:
        try:
            record = read_entry(key, value)
        except ProtocolError as error:
            self._pass_over(f"a record: {error}")
        else:
            if record is not None:
                self._load(record)

    def _pass_over(self, what: str) -> None:
        """Skip a record that no coordinator would have written."""
        self._node.log.warning("skipped in %s %s", self._tp, what)
