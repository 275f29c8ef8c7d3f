"""Ids for idempotent producers, unique over all brokers and all time.

A broker reserves a block of a thousand ids in the keeper by a conditional write and assigns them from memory;
unused ids of a dead broker are lost, which is cheap. If the answer to a write was lost, the broker does *not*
use that block: another process with the same broker id may have made the same write, and both would own the
block. It reserves the next one.

A broker process reserves its first block when it starts, as in Kafka, and each further one when a tenth of
the last is left, as in Kafka since KIP-730: so new producers can start while the keeper is not connected.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from tidelog.core.context import Context
from tidelog.core.effects import ReplyTo
from tidelog.core.keeper_paths import PRODUCER_ID_BLOCK
from tidelog.core.keeper_port import Create, Get, SetValue
from tidelog.core.keeper_tasks import KeeperClient, Procedure, Task, TaskQueue
from tidelog.core.messages import InitProducerIdResponse
from tidelog.wire.errors import ErrorCode

BLOCK_SIZE = 1_000
RESERVE = BLOCK_SIZE // 10
ATTEMPTS_MAX = 100
"""Every failed attempt means that another broker succeeded, unless the node is unreadable."""
TRY_AGAIN = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""Kafka's error when there are no ids. Other retriable errors would make a producer look for a coordinator,
and without transactions there is none."""


class ProducerIds:
    __slots__ = ("_block", "_ctx", "_fetching", "_next_block", "_reserve", "_tasks", "_waiting")

    def __init__(self, ctx: Context, keeper: KeeperClient) -> None:
        self._ctx = ctx
        self._tasks = TaskQueue(keeper)
        self._block = range(0)
        """Reserved ids that are not assigned yet."""
        self._next_block = range(0)
        self._reserve = 0
        """Minimum number of reserved ids."""
        self._fetching = False
        self._waiting: deque[ReplyTo] = deque()

    def session_started(self) -> None:
        """A new session: calls of the old one will not be answered."""
        self._tasks.cancel()
        self._fetching = False
        self._serve()

    def keep_reserve(self) -> None:
        """Keep a reserve of ids. A simulation does not: its producers get their ids elsewhere."""
        self._reserve = RESERVE
        self._serve()

    def init(self, reply_to: ReplyTo) -> None:
        self._waiting.append(reply_to)
        self._serve()

    def _serve(self) -> None:
        while self._waiting and (self._block or self._next_block):
            if not self._block:
                self._block, self._next_block = self._next_block, range(0)
            id_, self._block = self._block[0], self._block[1:]
            self._ctx.reply(
                self._waiting.popleft(), InitProducerIdResponse(error=ErrorCode.NONE, producer_id=id_)
            )
        short = len(self._block) < self._reserve and not self._next_block
        if (self._waiting or short) and not self._fetching:
            self._fetching = True
            self._tasks.submit(self._fetch_block)

    def _fetch_block(self) -> Task:
        for _ in range(ATTEMPTS_MAX):
            if (yield from self._take_block()):
                self._fetching = False
                self._serve()
                return
        self._fetching = False  # retried when the next producer asks
        while self._waiting:
            self._ctx.reply(self._waiting.popleft(), InitProducerIdResponse(error=TRY_AGAIN))

    def _take_block(self) -> Procedure[bool]:
        found = yield Get(PRODUCER_ID_BLOCK)
        last = _last_id(found.value.value) if found.ok else -1
        if last is None:
            return False
        block = range(last + 1, last + 1 + BLOCK_SIZE)
        # Kafka writes the two ends as strings.
        value = {
            "version": 1,
            "broker": self._ctx.broker,
            "block_start": str(block[0]),
            "block_end": str(block[-1]),
        }
        if found.ok:
            result = yield SetValue(PRODUCER_ID_BLOCK, value, found.value.stat.version)
        else:
            result = yield Create(PRODUCER_ID_BLOCK, value)
        if result.ok:
            self._next_block = block
        return result.ok


def _last_id(block: Any) -> int | None:
    """The last reserved id; None if the node does not hold a valid block."""
    try:
        return int(block["block_end"])
    except (KeyError, TypeError, ValueError):
        return None
