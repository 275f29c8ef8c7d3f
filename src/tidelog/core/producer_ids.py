"""Ids for idempotent producers: each is given out once, ever, by whichever broker.

A broker takes a block of a thousand ids from the keeper by a conditional write and hands them out from
memory; what is left of a block when the broker dies is lost, which is cheap. A write whose answer was lost is
*not* recognised as one's own: another process under the same broker id may have made the very same one, and
then both would own the block. The next block is as good.

A broker process takes its first block when it starts, as Kafka's do, and each further one when a tenth of the
last is left, as Kafka's have done since KIP-730: so new producers can begin while the keeper is away.
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
"""Every failure is some other broker's success, unless the node holds something unreadable."""
TRY_AGAIN = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""What Kafka says for want of ids. Errors that blame the coordinator would make a producer look for another
one, and without transactions there is none to be found."""


class ProducerIds:
    __slots__ = ("_block", "_ctx", "_fetching", "_next_block", "_reserve", "_tasks", "_waiting")

    def __init__(self, ctx: Context, keeper: KeeperClient) -> None:
        self._ctx = ctx
        self._tasks = TaskQueue(keeper)
        self._block = range(0)
        """Ids that are ours to give."""
        self._next_block = range(0)
        self._reserve = 0
        """How many to have at least, whether they are asked for or not."""
        self._fetching = False
        self._waiting: deque[ReplyTo] = deque()

    def session_started(self) -> None:
        """Whatever was asked of the keeper before is void."""
        self._tasks.cancel()
        self._fetching = False
        self._serve()

    def keep_reserve(self) -> None:
        """From now on have some at hand. A simulation need not: its producers get their ids elsewhere."""
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
            self._ctx.reply(self._waiting.popleft(), InitProducerIdResponse(ErrorCode.NONE, id_))
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
        self._fetching = False  # tried again when the next producer asks
        while self._waiting:
            self._ctx.reply(self._waiting.popleft(), InitProducerIdResponse(TRY_AGAIN))

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
    """The last id that anybody may have; None if the node holds something else than a block."""
    try:
        return int(block["block_end"])
    except (KeyError, TypeError, ValueError):
        return None
