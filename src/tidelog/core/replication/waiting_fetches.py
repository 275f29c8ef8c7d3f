"""Fetches of one replica: answered with records, or parked until there are some or their time is up.

A follower reads to the end of the log, a consumer up to the high watermark. A leader has these for both; a
follower has them for consumers that read from any replica (KIP-392, Kafka 2.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.core.effects import ReplyTo
from tidelog.core.log_port import StorageFailure
from tidelog.core.messages import CONSUMER, FOREVER, NO_ERROR, FetchRequest, FetchResponse
from tidelog.core.timers import Timer
from tidelog.core.types import BrokerId, Millis, Offset
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.core.replication.replica import Replica


@dataclass(slots=True)
class ParkedFetch:
    request: FetchRequest
    deadline: Millis


class WaitingFetches:
    __slots__ = ("_ctx", "_log", "_replica", "_timer", "parked")

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._ctx = replica.ctx
        self._log = replica.log
        self.parked: dict[ReplyTo, ParkedFetch] = {}
        self._timer: Timer | None = None
        """The timer of the earliest deadline."""

    def limit(self, request: FetchRequest) -> Offset:
        return self._replica.high_watermark if request.replica == CONSUMER else self._log.end_offset

    def out_of_range(self, request: FetchRequest, reply_to: ReplyTo) -> bool:
        """Refuse a fetch from an offset that is not in the log, nor its end."""
        log = self._log
        if log.start_offset <= request.offset <= log.end_offset:
            return False
        self._refuse(request, reply_to, ErrorCode.OFFSET_OUT_OF_RANGE)
        return True

    def answer_or_park(self, request: FetchRequest, reply_to: ReplyTo, limit: Offset, now: Millis) -> None:
        if request.offset < limit or request.max_wait_ms == 0:
            self._answer(request, reply_to, limit)
        else:
            self._park(request, reply_to, now)

    def send_to(self, nearest: BrokerId, request: FetchRequest, reply_to: ReplyTo) -> None:
        """Answer a consumer without records: it is to read at another replica."""
        replica = self._replica
        response = FetchResponse(replica.tp, NO_ERROR, request.offset, request.current_leader_epoch)
        response.high_watermark = replica.high_watermark
        response.log_start_offset = self._log.start_offset
        response.preferred = nearest
        self._ctx.reply(reply_to, response)

    def release(self) -> None:
        """Answer every parked fetch that has records to read now."""
        if not self.parked:
            return
        end, committed = self._log.end_offset, self._replica.high_watermark
        released = []
        for reply_to, parked in self.parked.items():
            limit = committed if parked.request.replica == CONSUMER else end
            if parked.request.offset < limit:
                self._answer(parked.request, reply_to, limit)
                released.append(reply_to)
        for reply_to in released:
            del self.parked[reply_to]

    def release_one(self, reply_to: ReplyTo) -> None:
        """Answer a parked fetch now with the available records: another partition of its request has data."""
        parked = self.parked.pop(reply_to, None)
        if parked is not None:
            self._answer(parked.request, reply_to, self.limit(parked.request))

    def release_followers(self) -> None:
        """Answer followers without records, for example because the log start has moved."""
        for reply_to in [to for to, parked in self.parked.items() if parked.request.replica != CONSUMER]:
            self.release_one(reply_to)

    def release_all(self) -> None:
        for reply_to in list(self.parked):
            self.release_one(reply_to)

    def withdraw(self, reply_to: ReplyTo) -> FetchRequest | None:
        """Forget a parked fetch without an answer, and return it."""
        parked = self.parked.pop(reply_to, None)
        return None if parked is None else parked.request

    def refuse_all(self, error: ErrorCode) -> None:
        waiting, self.parked = self.parked, {}
        for reply_to, parked in waiting.items():
            self._refuse(parked.request, reply_to, error)

    def _refuse(self, request: FetchRequest, reply_to: ReplyTo, error: ErrorCode) -> None:
        response = FetchResponse(self._replica.tp, error, request.offset, request.current_leader_epoch)
        self._ctx.reply(reply_to, response)

    def _answer(self, request: FetchRequest, reply_to: ReplyTo, limit: Offset) -> None:
        replica = self._replica
        response = FetchResponse(replica.tp, NO_ERROR, request.offset, request.current_leader_epoch)
        try:
            response.batches = self._log.read(request.offset, limit, request.max_bytes)
            response.high_watermark = replica.high_watermark
            response.log_start_offset = self._log.start_offset
        except StorageFailure as failure:
            replica.storage_failed(failure)
            response.error = ErrorCode.KAFKA_STORAGE_ERROR
        self._ctx.reply(reply_to, response)

    def _park(self, request: FetchRequest, reply_to: ReplyTo, now: Millis) -> None:
        deadline = now + request.max_wait_ms
        self.parked[reply_to] = ParkedFetch(request, deadline)
        if request.max_wait_ms < FOREVER:
            self._timer = self._ctx.set_earlier(self._timer, deadline, self._expire)

    def _expire(self, now: Millis) -> None:
        self._timer = None
        waiting, self.parked = self.parked, {}
        for reply_to, parked in waiting.items():
            request = parked.request
            if parked.deadline <= now:
                self._answer(request, reply_to, request.offset)
            else:
                self._park(request, reply_to, parked.deadline - request.max_wait_ms)
