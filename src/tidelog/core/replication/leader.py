"""The leader of a partition: remote log ends, the ISR, the high watermark, and waiting requests.

Rules of this file:

* The high watermark is recomputed when the log grows, when a follower fetches, when the ISR shrinks (under
  ``epoch`` only when the shrink is proposed) and when an epoch begins; within one leadership it never goes
  back.
* A follower's fetch at offset *n* acknowledges everything below *n*. As in Kafka the data of the response is
  read first, then the acknowledgement is recorded: so a follower's high watermark lags one fetch round.
* An ISR change is a *proposal* until it is written to the keeper. A proposed expansion already holds the high
  watermark back, a proposed shrink does not yet release it (KIP-497).
* There are no tasks: parked produces are entries in this object, parked fetches in ``waiting_fetches.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.core import events
from tidelog.core.effects import ReplyTo
from tidelog.core.log_port import StorageFailure
from tidelog.core.messages import (
    ACKS_ALL,
    CONSUMER,
    NO_ERROR,
    AlterIsrRequest,
    AlterIsrResponse,
    DeleteRecordsRequest,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
)
from tidelog.core.reasons import IsrChange, LeadershipStart, WatermarkMoment
from tidelog.core.replication.delete_records import RecordDeletion
from tidelog.core.replication.follower_progress import NEVER, UNREACHED, FollowerProgress
from tidelog.core.replication.nearest_replica import nearest_replica
from tidelog.core.replication.waiting_fetches import ParkedFetch, WaitingFetches
from tidelog.core.timers import Timer
from tidelog.core.types import (
    NO_EPOCH,
    NO_LEADER,
    NO_PRODUCER,
    UNKNOWN_OFFSET,
    BrokerId,
    Millis,
    Offset,
    PartitionState,
)
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.core.replication.replica import Replica


@dataclass(slots=True)
class _ParkedProduce:
    """An acks=all produce that waits for the high watermark to reach ``required``."""

    reply_to: ReplyTo
    base_offset: Offset
    required: Offset
    deadline: Millis


class LeaderRole:
    __slots__ = (
        "_check_scheduled",
        "_held",
        "_produce_timer",
        "_produces",
        "_proposals",
        "_record_deletion",
        "ctx",
        "epoch",
        "epoch_start",
        "fetches",
        "followers",
        "is_locked",
        "isr",
        "log",
        "proposal",
        "replica",
        "version",
    )

    def __init__(self, replica: Replica, known: dict[BrokerId, FollowerProgress]) -> None:
        self.replica = replica
        self.ctx = replica.ctx
        self.log = replica.log
        self.epoch = NO_EPOCH
        self.epoch_start: Offset = UNKNOWN_OFFSET
        self.isr: tuple[BrokerId, ...] = ()
        self.version = -1
        self.proposal: AlterIsrRequest | None = None
        self._proposals = 0
        self.is_locked = False
        """The leader writes its ISR to the keeper, and no client may write to the partition meanwhile."""
        self._held: list[tuple[ProduceRequest | FetchRequest, ReplyTo]] = []
        """The requests that wait until it is no longer locked."""
        self.followers: dict[BrokerId, FollowerProgress] = known
        self._take_replicas()
        if not self.ctx.generation.lag_counts_from_epoch:
            for broker, follower in self.followers.items():
                former = replica.former_followers.get(broker)
                follower.last_caught_up = replica.in_use_since if former is None else former.last_caught_up
        self._produces: list[_ParkedProduce] = []
        self.fetches = WaitingFetches(replica)
        self._produce_timer: Timer | None = None
        """The timer of the earliest deadline of the waiting requests."""
        self._check_scheduled = False
        self._record_deletion: RecordDeletion | None = None

    def _take_replicas(self) -> None:
        """The followers are the other replicas. A reassignment changes them within one leadership."""
        known, me = self.followers, self.ctx.broker
        self.followers = {
            broker: known.get(broker) or FollowerProgress()
            for broker in self.replica.replicas
            if broker != me
        }

    # ------------------------------------------------------------ epochs of leadership

    def begin_epoch(self, state: PartitionState, now: Millis) -> None:
        """Start to lead, or continue in a new epoch, after a LeaderAndIsr."""
        led = self.version != -1
        moment = WatermarkMoment.REPLICA_LEFT_ISR if led else WatermarkMoment.LEADERSHIP_BEGAN
        self.epoch = state.leader_epoch
        self.isr = state.isr
        self.version = state.version
        self.proposal = None
        self.epoch_start = self.log.end_offset
        if led:
            self._take_replicas()
        for broker, follower in self.followers.items():
            if self.ctx.generation.lag_counts_from_epoch:
                # A replica outside the ISR must first fetch up to the current log end.
                follower.last_caught_up = now if broker in self.isr else NEVER
            follower.last_fetch = now
            # A new leader knows of no earlier fetch at which the follower may have been caught up.
            follower.leader_end_at_last_fetch = self.epoch_start if led else UNREACHED
        self.ctx.generation.begin_leading(self)  # the append may fail
        replica = self.replica
        start = LeadershipStart.CONTINUED if led else LeadershipStart.TAKEN_UP
        facts = (self.epoch, self.isr, self.epoch_start, replica.high_watermark, start)
        self.ctx.emit(events.BecameLeader(self.ctx.broker, replica.tp, *facts))
        self.advance_high_watermark(now, moment)
        self.fetches.release()
        if self.followers and not self._check_scheduled:
            self._check_scheduled = True
            self._schedule_isr_check(now)
        self._unlock(now)

    def take_isr(self, state: PartitionState, now: Millis) -> None:
        """The controller changed the ISR or the replicas within this epoch. A follower that left the ISR is
        dead or shuts down, so the high watermark does not wait for it either, however recently it was caught
        up."""
        before = self.isr
        self._take_replicas()
        for broker in before:
            if broker not in state.isr and broker in self.followers:
                self.followers[broker].last_caught_up = NEVER
        self.isr, self.version = state.isr, state.version
        self.proposal = None
        self.ctx.emit(events.IsrChanged(self.ctx.broker, self.replica.tp, self.epoch, self.isr))
        if self.isr != before:
            # Otherwise min.insync.replicas was changed. A broker of Kafka 4 hears first that no replica is
            # eligible and then of the setting, so the high watermark waits for the next append or fetch.
            self.advance_high_watermark(now, WatermarkMoment.REPLICA_LEFT_ISR)

    def abdicate(self, error: ErrorCode) -> None:
        """Another broker leads: answer all waiting requests with an error."""
        tp = self.replica.tp
        for produce in self._produces:
            self.ctx.reply(produce.reply_to, ProduceResponse(tp, error, produce.base_offset))
        self._produces = []
        self._refuse_held(error)
        self.fetches.refuse_all(error)
        if self._record_deletion is not None:
            self._record_deletion.abdicate(error)

    @property
    def parked(self) -> tuple[list[_ParkedProduce], dict[ReplyTo, ParkedFetch]]:
        """The waiting requests, for observers."""
        return self._produces, self.fetches.parked

    @property
    def is_current(self) -> bool:
        return self.replica.role is self

    # ------------------------------------------------------------ produce

    def produce(self, request: ProduceRequest, reply_to: ReplyTo, now: Millis) -> None:
        if self.is_locked:
            self._held.append((request, reply_to))
            return
        acks = request.acks
        batch = request.batch
        if acks == ACKS_ALL and self.too_few_in_sync():
            self.ctx.reply(reply_to, ProduceResponse(self.replica.tp, ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        base_offset = UNKNOWN_OFFSET
        if batch.producer_id != NO_PRODUCER:
            error, base_offset = self.replica.producers.check(batch)
            if error is not NO_ERROR:
                if acks != 0:
                    self.ctx.reply(reply_to, ProduceResponse(self.replica.tp, error))
                return
        if base_offset == UNKNOWN_OFFSET:
            try:
                stored = self.replica.append_as_leader(batch)
            except StorageFailure as failure:
                self.replica.write_failed(failure, now)
                if batch.producer_id != NO_PRODUCER:
                    self.replica.producers.turned_away(batch)
                if acks != 0:
                    self.ctx.reply(reply_to, ProduceResponse(self.replica.tp, ErrorCode.KAFKA_STORAGE_ERROR))
                return
            base_offset = stored.base_offset
            required = stored.next_offset
        else:
            required = base_offset + batch.next_offset - batch.base_offset
        if acks == ACKS_ALL:
            self._park_produce(_ParkedProduce(reply_to, base_offset, required, now + request.timeout_ms))
        elif acks != 0:
            self.ctx.reply(reply_to, ProduceResponse(self.replica.tp, NO_ERROR, base_offset))
        self.advance_high_watermark(now, WatermarkMoment.RECORDS_APPENDED)
        self.fetches.release()

    def too_few_in_sync(self) -> bool:
        return self._is_below_min_isr(self.isr)

    def _is_below_min_isr(self, isr: tuple[BrokerId, ...]) -> bool:
        generation = self.ctx.generation
        configured = self.ctx.topic_config(self.replica.tp.topic).min_insync_replicas
        needed = generation.insync_replicas_needed(configured, len(self.followers) + 1)
        return generation.commits_by_isr and len(isr) < needed

    def _park_produce(self, produce: _ParkedProduce) -> None:
        if produce.required <= self.replica.high_watermark:
            self._complete_produce(produce)
            return
        self._produces.append(produce)
        self._produce_timer = self.ctx.set_earlier(
            self._produce_timer, produce.deadline, self._expire_produces
        )

    def _complete_produce(self, produce: _ParkedProduce) -> None:
        error = NO_ERROR
        if self._is_below_min_isr(self.maximal_isr):
            # The ISR has committed the record, but is smaller than min.insync.replicas. The high watermark
            # has waited for a member that is only proposed so far, too: it counts.
            error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self.ctx.reply(produce.reply_to, ProduceResponse(self.replica.tp, error, produce.base_offset))

    def _expire_produces(self, now: Millis) -> None:
        if not self.is_current:
            return
        self._produce_timer = None
        waiting, self._produces = self._produces, []
        for produce in waiting:
            if produce.deadline <= now:
                # The record stays in the log, so the outcome is unknown to the client.
                error = ErrorCode.REQUEST_TIMED_OUT
                self.ctx.reply(produce.reply_to, ProduceResponse(self.replica.tp, error, produce.base_offset))
            else:
                self._park_produce(produce)

    # ------------------------------------------------------------ fetch

    def fetch(self, request: FetchRequest, reply_to: ReplyTo, now: Millis) -> None:
        fetches = self.fetches
        if fetches.out_of_range(request, reply_to):
            return
        limit = fetches.limit(request)
        if request.replica == CONSUMER:
            nearest = nearest_replica(self, request)
            if nearest != NO_LEADER:
                fetches.send_to(nearest, request, reply_to)
            else:
                fetches.answer_or_park(request, reply_to, limit, now)
            return
        if self.is_locked:
            self._held.append((request, reply_to))
            return
        follower = self.followers.get(request.replica)
        if follower is None or (
            request.broker_epoch < follower.broker_epoch and self.ctx.guards.incarnation_in_isr
        ):
            # Not a replica of this partition, or a process that was restarted since it sent this.
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER if follower is None else ErrorCode.STALE_BROKER_EPOCH
            epoch = request.current_leader_epoch
            self.ctx.reply(reply_to, FetchResponse(self.replica.tp, error, request.offset, epoch))
            return
        fetches.answer_or_park(request, reply_to, limit, now)
        self._book_fetch(request, follower, now)

    def _book_fetch(self, request: FetchRequest, follower: FollowerProgress, now: Millis) -> None:
        before = follower.log_end_offset
        follower.broker_epoch = request.broker_epoch
        follower.log_start_offset = request.log_start_offset
        generation = self.ctx.generation
        follower.fetched(
            request.offset, self.log.end_offset, now, previous_counts=generation.counts_previous_fetch
        )
        if self.proposal is None and request.replica not in self.isr:
            self._maybe_expand_isr(request.replica, follower)
        if before != request.offset or not generation.isr_through_controller:
            self.advance_high_watermark(now, WatermarkMoment.FOLLOWER_FETCHED)
        if self._record_deletion is not None:
            self._record_deletion.progressed()

    def delete_records(self, request: DeleteRecordsRequest, reply_to: ReplyTo, now: Millis) -> None:
        if self._record_deletion is None:
            self._record_deletion = RecordDeletion(self)
        self._record_deletion.request(request, reply_to, now)

    def end_offset_for(self, asker: BrokerId) -> tuple[ErrorCode, Offset]:
        """ListOffsets(latest). A new leader does not know the true high watermark until it has passed the
        start of its epoch. It answers with an error rather than let a consumer go backwards."""
        if asker != CONSUMER:
            return NO_ERROR, self.log.end_offset
        if self.ctx.guards.fence_fetch_by_epoch and self.replica.high_watermark < self.epoch_start:
            return ErrorCode.OFFSET_NOT_AVAILABLE, UNKNOWN_OFFSET
        return NO_ERROR, self.replica.high_watermark

    # ------------------------------------------------------------ the high watermark

    @property
    def maximal_isr(self) -> tuple[BrokerId, ...]:
        """The ISR and the members that a pending proposal would add."""
        proposal = self.proposal
        if proposal is None or not self.ctx.guards.maximal_isr:
            return self.isr
        return self.isr + tuple(broker for broker in proposal.isr if broker not in self.isr)

    def advance_high_watermark(self, now: Millis, moment: WatermarkMoment) -> None:
        replica = self.replica
        before = replica.high_watermark
        committed = self.ctx.generation.committed_offset(self, now)
        if committed <= before:
            return
        replica.high_watermark = committed
        self.ctx.emit(
            events.HighWatermarkAdvanced(
                self.ctx.broker, replica.tp, self.epoch, before, committed, self.maximal_isr, moment
            )
        )
        if self._produces:
            waiting, self._produces = self._produces, []
            for produce in waiting:
                if produce.required <= committed:
                    self._complete_produce(produce)
                else:
                    self._produces.append(produce)
        self.fetches.release()

    # ------------------------------------------------------------ the in-sync replicas

    def _schedule_isr_check(self, now: Millis) -> None:
        interval = self.ctx.config.replica_lag_time_max_ms // self.ctx.generation.isr_checks_per_lag_time
        self.ctx.set_timer(now + interval, self._check_isr)

    def _check_isr(self, now: Millis) -> None:
        if not self.is_current:
            return
        self._schedule_isr_check(now)
        self.ctx.isr_checks.check(self, now)

    def propose_without_lagging(self, now: Millis) -> bool:
        """Ask for an ISR without the followers that lag. False: there is nothing to ask for."""
        if self.proposal is not None or not self.ctx.generation.commits_by_isr:
            return False
        config, end = self.ctx.config, self.log.end_offset
        exempt = self.ctx.generation.exempts_complete_followers
        others = (broker for broker in self.isr if broker != self.ctx.broker)
        lagging = [b for b in others if self.followers[b].lags(config, end, now, complete_exempt=exempt)]
        if not lagging:
            return False
        isr = tuple(broker for broker in self.isr if broker not in lagging)
        self._propose(isr, IsrChange[config.isr_rule.name])
        if not self.ctx.generation.tracks_eligible_leaders:
            self.advance_high_watermark(now, WatermarkMoment.ISR_CHECKED)
        return True

    def _maybe_expand_isr(self, broker: BrokerId, follower: FollowerProgress) -> None:
        guards = self.ctx.guards
        generation = self.ctx.generation
        if not generation.commits_by_isr or broker not in self.replica.replicas:
            return
        if not generation.may_join_isr(self, broker):
            return
        end = follower.log_end_offset
        if guards.isr_entry_above_high_watermark and end < self.replica.high_watermark:
            return
        if guards.isr_entry_above_epoch_start and end < self.epoch_start:
            return
        self._propose((*self.isr, broker), IsrChange.CAUGHT_UP)

    def _propose(self, isr: tuple[BrokerId, ...], reason: IsrChange) -> None:
        ctx, replica = self.ctx, self.replica
        self._proposals += 1
        if ctx.generation.proposes_sorted_isr:
            isr = tuple(sorted(isr))
        self.proposal = AlterIsrRequest(
            tp=replica.tp,
            broker=ctx.broker,
            broker_epoch=ctx.broker_epoch,
            leader_epoch=self.epoch,
            isr=isr,
            version=self.version,
            member_epochs=tuple(
                ctx.broker_epoch if b == ctx.broker else self.followers[b].broker_epoch for b in isr
            ),
            number=self._proposals,
            topic_id=replica.log.topic_id,
        )
        self.is_locked = not ctx.generation.isr_through_controller and ctx.guards.isr_write_lock
        ctx.emit(events.IsrChangeProposed(ctx.broker, replica.tp, self.epoch, self.isr, isr, reason))
        ctx.propose_isr(self.proposal)

    def isr_change_answered(self, response: AlterIsrResponse, now: Millis) -> None:
        proposal = self.proposal
        if proposal is None or (response.leader_epoch, response.number) != (self.epoch, proposal.number):
            return
        error = response.error
        if error is NO_ERROR:
            grew = len(response.isr) > len(self.isr)
            self.isr, self.version = response.isr, response.version
            self.proposal = None
            self.ctx.emit(events.IsrChanged(self.ctx.broker, self.replica.tp, self.epoch, self.isr))
            if self.ctx.generation.advances_on_confirmed_isr:
                moment = WatermarkMoment.ISR_GREW if grew else WatermarkMoment.REPLICA_LEFT_ISR
                self.advance_high_watermark(now, moment)
        else:
            self.ctx.emit(
                events.IsrChangeRefused(self.ctx.broker, self.replica.tp, self.epoch, proposal.isr, error)
            )
            if error is ErrorCode.INELIGIBLE_REPLICA:
                self.proposal = None  # the member rebooted; it must fetch again and catch up
            # After any other refusal the controller has a newer state: keep the proposal pending (it still
            # holds the high watermark back) and wait for its LeaderAndIsr.
        self._unlock(now)

    def _unlock(self, now: Millis) -> None:
        """The keeper has answered: those that waited for that go on, in the order in which they came."""
        if not self.is_locked:
            return
        self.is_locked = False
        held, self._held = self._held, []
        for request, reply_to in held:
            if isinstance(request, ProduceRequest):
                self.produce(request, reply_to, now)
            else:
                self.fetch(request, reply_to, now)
        self.ctx.isr_checks.go_on(self, now)

    def _refuse_held(self, error: ErrorCode) -> None:
        self.is_locked = False
        self.ctx.isr_checks.give_up(self)
        held, self._held = self._held, []
        tp = self.replica.tp
        for request, reply_to in held:
            if isinstance(request, FetchRequest):
                epoch = request.current_leader_epoch
                self.ctx.reply(reply_to, FetchResponse(tp, error, request.offset, epoch))
            elif request.acks != 0:
                self.ctx.reply(reply_to, ProduceResponse(tp, error))
