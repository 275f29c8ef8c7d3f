"""DeleteRecords (KIP-107): a leader deletes the front of its log, and answers when its followers have, too.

The leader moves its log start at once; followers learn of it with the next fetch response and report their
own log start with the fetch after that. The request is answered when the *low watermark*, the smallest log
start among the live replicas, has reached the requested offset: from then on no change of leadership brings
the records back. A replica whose broker is down does not count; it catches up when it returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.core.effects import ReplyTo
from tidelog.core.log_port import StorageFailure
from tidelog.core.messages import DeleteRecordsRequest, DeleteRecordsResponse
from tidelog.core.timers import Timer
from tidelog.core.types import UNKNOWN_OFFSET, Millis, Offset
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.core.replication.leader import LeaderRole


@dataclass(slots=True)
class _Parked:
    reply_to: ReplyTo
    offset: Offset
    deadline: Millis


class RecordDeletion:
    """The pending DeleteRecords requests of one leader."""

    __slots__ = ("_leader", "_parked", "_timer")

    def __init__(self, leader: LeaderRole) -> None:
        self._leader = leader
        self._parked: list[_Parked] = []
        self._timer: Timer | None = None

    def request(self, request: DeleteRecordsRequest, reply_to: ReplyTo, now: Millis) -> None:
        leader, offset = self._leader, request.offset
        committed = leader.replica.high_watermark
        if offset == UNKNOWN_OFFSET:
            offset = committed
        if not 0 <= offset <= committed:
            # Uncommitted records may still be truncated.
            self._reply(reply_to, ErrorCode.OFFSET_OUT_OF_RANGE, UNKNOWN_OFFSET)
            return
        try:
            leader.replica.advance_start(offset)
        except StorageFailure as failure:
            leader.replica.storage_failed(failure)
            self._reply(reply_to, ErrorCode.KAFKA_STORAGE_ERROR, UNKNOWN_OFFSET)
            return
        self._parked.append(_Parked(reply_to, offset, now + request.timeout_ms))
        leader.fetches.release_followers()  # so that they learn of it now
        self.progressed()
        if self._parked:
            self._timer = leader.ctx.set_earlier(self._timer, now + request.timeout_ms, self._expire)

    @property
    def low_watermark(self) -> Offset:
        leader = self._leader
        starts = [
            follower.log_start_offset
            for broker, follower in leader.followers.items()
            if leader.ctx.is_alive(broker)
        ]
        return min((leader.log.start_offset, *starts))

    def progressed(self) -> None:
        """A log start may have moved: answer the requests that waited for it."""
        if self._parked:
            low_watermark = self.low_watermark
            waiting, self._parked = self._parked, []
            for parked in waiting:
                if parked.offset <= low_watermark:
                    self._reply(parked.reply_to, ErrorCode.NONE, low_watermark)
                else:
                    self._parked.append(parked)

    def _expire(self, now: Millis) -> None:
        self._timer = None
        if self._leader.is_current:
            self.progressed()  # a broker that died meanwhile no longer counts
            late = [parked for parked in self._parked if parked.deadline <= now]
            self._parked = [parked for parked in self._parked if parked.deadline > now]
            self._give_up(late, ErrorCode.REQUEST_TIMED_OUT)
            if self._parked:
                earliest = min(parked.deadline for parked in self._parked)
                self._timer = self._leader.ctx.set_timer(earliest, self._expire)

    def abdicate(self, error: ErrorCode) -> None:
        waiting, self._parked = self._parked, []
        self._give_up(waiting, error)

    def _give_up(self, waiting: list[_Parked], error: ErrorCode) -> None:
        for parked in waiting:
            self._reply(parked.reply_to, error, self.low_watermark)

    def _reply(self, reply_to: ReplyTo, error: ErrorCode, low_watermark: Offset) -> None:
        leader = self._leader
        leader.ctx.reply(
            reply_to, DeleteRecordsResponse(tp=leader.replica.tp, error=error, low_watermark=low_watermark)
        )
