"""Ids for idempotent producers: each is given out once, ever, by whichever broker.

A broker takes a block of a thousand ids from the keeper by a conditional write and hands them out from
memory; what is left of a block when the broker dies is lost, which is cheap. A write whose answer was lost is
*not* recognised as one's own: another process under the same broker id may have made the very same one, and
then both would own the block. The next block is as good.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from tidelog.core.context import Context
from tidelog.core.coordination import Create, Get, SetValue
from tidelog.core.effects import ReplyTo
from tidelog.core.messages import InitProducerIdResponse
from tidelog.core.paths import PRODUCER_ID_BLOCK
from tidelog.core.tasks import KeeperClient, Procedure, Task, TaskQueue
from tidelog.wire.errors import ErrorCode

BLOCK_SIZE = 1_000
ATTEMPTS_MAX = 100
"""Every failure is some other broker's success, unless the node holds something unreadable."""


class ProducerIds:
    __slots__ = ("_block", "_ctx", "_fetching", "_tasks", "_waiting")

    def __init__(self, ctx: Context, keeper: KeeperClient) -> None:
        self._ctx = ctx
        self._tasks = TaskQueue(keeper)
        self._block = range(0)
        """Ids that are ours to give."""
        self._fetching = False
        self._waiting: deque[ReplyTo] = deque()

    def session_started(self) -> None:
        """Whatever was asked of the keeper before is void."""
        self._tasks.cancel()
        self._fetching = False
        self._serve()

    def init(self, reply_to: ReplyTo) -> None:
        self._waiting.append(reply_to)
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._block:
            id_, self._block = self._block[0], self._block[1:]
            self._ctx.reply(self._waiting.popleft(), InitProducerIdResponse(ErrorCode.NONE, id_))
        if self._waiting and not self._fetching:
            self._fetching = True
            self._tasks.submit(self._fetch_block)

    def _fetch_block(self) -> Task:
        for _ in range(ATTEMPTS_MAX):
            if (yield from self._take_block()):
                break
        else:
            while self._waiting:
                error = InitProducerIdResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                self._ctx.reply(self._waiting.popleft(), error)
        self._fetching = False
        self._serve()

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
            self._block = block
        return result.ok


def _last_id(block: Any) -> int | None:
    """The last id that anybody may have; None if the node holds something else than a block."""
    try:
        return int(block["block_end"])
    except (KeyError, TypeError, ValueError):
        return None
