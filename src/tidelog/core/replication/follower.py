"""A follower: find where its log diverges from the leader's, truncate there, then fetch continuously.

One request is outstanding at a time, and an answer counts only if it matches what is outstanding: the same
epoch, the same offset. After a reconnect the outstanding request is sent again.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from tidelog.core import events
from tidelog.core.log_port import OutOfOrder, StorageFailure
from tidelog.core.messages import (
    NO_ERROR,
    EpochEndRequest,
    EpochEndResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from tidelog.core.reasons import TruncationRule
from tidelog.core.types import NO_EPOCH, BrokerId, LeaderEpoch, Millis
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.core.replication.replica import Replica


class Phase(Enum):
    BEGINNING = "finding out how much of its log may stay"
    TRUNCATING = "asking where its last epoch ends"
    FETCHING = "fetching"
    FINDING_END = "asking where the leader's log ends"
    STALLED = "waiting for the controller"


_FETCHING = Phase.FETCHING


class FollowerRole:
    __slots__ = ("_retrying", "asked_epoch", "ctx", "epoch", "leader", "log", "phase", "replica")

    def __init__(self, replica: Replica, leader: BrokerId, epoch: LeaderEpoch) -> None:
        self.replica = replica
        self.ctx = replica.ctx
        self.log = replica.log
        self.leader = leader
        self.epoch = epoch
        self.phase = Phase.BEGINNING
        self.asked_epoch = NO_EPOCH
        self._retrying = False

    @property
    def is_current(self) -> bool:
        return self.replica.role is self

    def begin(self, now: Millis) -> None:
        """A leader epoch begins: find the offset to truncate to. Nothing is fetched before that."""
        try:
            self.ctx.generation.begin_following(self)
        except StorageFailure as failure:
            self._storage_failed(failure, now)

    def stay_behind(self, now: Millis) -> None:
        """The broker shuts down: nothing is asked of the leader."""
        self.phase = Phase.STALLED
        if self.ctx.generation.truncates_before_stopping:
            try:
                rule = TruncationRule.OWN_HIGH_WATERMARK
                self.replica.truncate_to(self.replica.high_watermark, rule)
            except StorageFailure as failure:
                self.replica.write_failed(failure, now)

    # ------------------------------------------------------------ asking

    def fetch(self) -> None:
        self.phase = _FETCHING
        ctx = self.ctx
        ctx.send(
            self.leader,
            FetchRequest(
                self.replica.tp,
                ctx.broker,
                self.log.end_offset,
                self.epoch,
                ctx.config.replica_fetch_wait_max_ms,
                ctx.broker_epoch,
                log_start_offset=self.log.start_offset,
                topic_id=self.log.topic_id,
            ),
        )

    def ask_epoch_end(self, epoch: LeaderEpoch) -> None:
        self.phase = Phase.TRUNCATING
        self.asked_epoch = epoch
        self.ctx.emit(events.EpochEndAsked(self.ctx.broker, self.replica.tp, self.leader, epoch))
        self._send_epoch_question()

    def _send_epoch_question(self) -> None:
        ctx = self.ctx
        ctx.send(
            self.leader,
            EpochEndRequest(
                tp=self.replica.tp,
                replica=ctx.broker,
                current_leader_epoch=self.epoch,
                asked_epoch=self.asked_epoch,
            ),
        )

    def _ask_leader_end(self) -> None:
        self.phase = Phase.FINDING_END
        self.ctx.send(
            self.leader,
            ListOffsetsRequest(tp=self.replica.tp, replica=self.ctx.broker, current_leader_epoch=self.epoch),
        )

    def resend(self) -> None:
        """Send the outstanding request again: the connection is new, or the leader asked to retry later."""
        if self.phase is _FETCHING:
            self.fetch()
        elif self.phase is Phase.TRUNCATING:
            self._send_epoch_question()
        elif self.phase is Phase.FINDING_END:
            self._ask_leader_end()

    # ------------------------------------------------------------ answers

    def fetched(self, response: FetchResponse, now: Millis) -> None:
        guards = self.ctx.guards
        if self.phase is not _FETCHING:
            return
        if guards.match_fetch_epoch and response.current_leader_epoch != self.epoch:
            return
        if guards.match_fetch_offset and response.offset != self.log.end_offset:
            return
        error = response.error
        if error is NO_ERROR:
            replica = self.replica
            try:
                if response.batches:
                    replica.append_as_follower(response.batches)
                replica.advance_start(min(response.log_start_offset, self.log.end_offset))
            except StorageFailure as failure:
                self._storage_failed(failure, now)
                return
            except OutOfOrder:
                self.phase = Phase.STALLED  # until the next epoch
                error = ErrorCode.UNKNOWN_SERVER_ERROR
                self.ctx.emit(events.FollowerStalled(self.ctx.broker, replica.tp, error))
                return
            # The leader's watermark may be lower (a new leader is still recovering it): follow it down too.
            replica.high_watermark = min(self.log.end_offset, response.high_watermark)
            if replica.follower_reads is not None:
                replica.follower_reads.release()
            self.fetch()
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._ask_leader_end()
        else:
            self._refused(error, now)

    def epoch_end_answered(self, response: EpochEndResponse, now: Millis) -> None:
        if self.phase is not Phase.TRUNCATING or response.asked_epoch != self.asked_epoch:
            return
        if self.ctx.guards.match_fetch_epoch and response.current_leader_epoch != self.epoch:
            return
        if response.error is not NO_ERROR:
            self._refused(response.error, now)
            return
        self.ctx.emit(
            events.EpochEndAnswered(
                self.ctx.broker,
                self.replica.tp,
                self.leader,
                response.asked_epoch,
                response.epoch,
                response.end_offset,
            )
        )
        try:
            self.ctx.generation.truncate(self, response)
        except StorageFailure as failure:
            self._storage_failed(failure, now)

    def leader_end_answered(self, response: ListOffsetsResponse, now: Millis) -> None:
        if self.phase is not Phase.FINDING_END or response.current_leader_epoch != self.epoch:
            return
        if response.error is not NO_ERROR:
            self._refused(response.error, now)
            return
        if response.offset < self.log.end_offset and self._must_exit():
            self.phase = Phase.STALLED
            self.ctx.emit(
                events.BrokerExited(
                    self.ctx.broker, self.replica.tp, self.leader, self.log.end_offset, response.offset
                )
            )
            self.ctx.exit(now)
            return
        try:
            if response.log_start_offset > self.log.end_offset:
                self.replica.restart_at(response.log_start_offset)
            else:
                self.replica.truncate_to(response.offset, TruncationRule.LEADER_LOG_SHORTER)
        except StorageFailure as failure:
            self._storage_failed(failure, now)
        else:
            self.fetch()

    def _must_exit(self) -> bool:
        """Whether a log that is longer than the leader's may not be truncated."""
        allowed = self.ctx.topic_config(self.replica.tp.topic).unclean_leader_election
        return self.ctx.generation.exits_before_truncating and not allowed

    def _storage_failed(self, failure: StorageFailure, now: Millis) -> None:
        """The follower's own disk failed. Repeat the request after a pause, because its answer may have
        changed by then."""
        self.replica.write_failed(failure, now)
        self._refused(ErrorCode.KAFKA_STORAGE_ERROR, now)

    def _refused(self, error: ErrorCode, now: Millis) -> None:
        self.ctx.emit(events.FollowerStalled(self.ctx.broker, self.replica.tp, error))
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            # The follower has an old epoch: only the controller can send the new leader.
            self.phase = Phase.STALLED
        elif not self._retrying:
            self._retrying = True
            self.ctx.set_timer(now + self.ctx.config.replica_fetch_backoff_ms, self._retry)

    def _retry(self, now: Millis) -> None:
        self._retrying = False
        if not self.is_current:
            return
        if self.phase is Phase.BEGINNING:
            self.begin(now)
        else:
            self.resend()
