"""One broker's copy of one partition: its log, its high watermark, and its role.

A replica gets its role from LeaderAndIsr requests and accepts only a *newer* leader epoch than its own. The
role (``leader.py``, ``follower.py``) decides everything else; this module holds what survives a change of
role, and the two operations on a log that must keep the epoch cache and the producer states in step.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.core import events
from tidelog.core.context import Context
from tidelog.core.effects import ReplyTo
from tidelog.core.log_port import Batch, Log, StorageFailure
from tidelog.core.messages import (
    NO_ERROR,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    EpochEndRequest,
    EpochEndResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    PartitionAssignment,
    ProduceRequest,
    ProduceResponse,
)
from tidelog.core.reasons import TruncationRule
from tidelog.core.replication.follower import FollowerRole
from tidelog.core.replication.follower_progress import NEVER, FollowerProgress
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.replication.producer_state import ProducerStates
from tidelog.core.replication.waiting_fetches import WaitingFetches
from tidelog.core.types import (
    NO_EPOCH,
    NO_LEADER,
    NO_PRODUCER,
    BrokerId,
    LeaderEpoch,
    Millis,
    Offset,
    PartitionState,
    TopicPartition,
)
from tidelog.wire.errors import ErrorCode

RELIEF_MS: Millis = 10_000
"""Minimum time between two requests of a replica to be relieved: if all disks are full, another leader does
not help."""


class Replica:
    __slots__ = (
        "_relief_due",
        "ctx",
        "follower_reads",
        "former_followers",
        "high_watermark",
        "in_use_since",
        "leader_epoch",
        "log",
        "producers",
        "replicas",
        "role",
        "tp",
    )

    def __init__(self, ctx: Context, tp: TopicPartition, log: Log, high_watermark: Offset) -> None:
        self.ctx = ctx
        self.tp = tp
        self.log = log
        # The checkpoint may be ahead of a log that lost its tail in a power cut.
        self.high_watermark = min(high_watermark, log.end_offset)
        self.replicas: tuple[BrokerId, ...] = ()
        self.leader_epoch: LeaderEpoch = NO_EPOCH
        self.role: LeaderRole | FollowerRole | None = None
        self.former_followers: dict[BrokerId, FollowerProgress] = {}
        self.in_use_since: Millis = NEVER
        """When this process first had a role in the partition."""
        self._relief_due: dict[type, Millis] = {}
        self.follower_reads: WaitingFetches | None = None
        """Consumers that wait at this replica while it does not lead, if there were any."""
        self.producers = ProducerStates()
        log.restore_producers(self.producers)

    @property
    def leads(self) -> bool:
        return isinstance(self.role, LeaderRole)

    @property
    def leader(self) -> BrokerId:
        """The broker that it follows; none while it does not follow."""
        return self.role.leader if isinstance(self.role, FollowerRole) else NO_LEADER

    @property
    def log_end_offset(self) -> Offset:
        return self.log.end_offset

    # ------------------------------------------------------------ roles

    def become_leader(self, assignment: PartitionAssignment, now: Millis) -> None:
        state = assignment.state
        self._assigned(assignment, now)
        role = self.role
        if not isinstance(role, LeaderRole):
            self.step_down()
            known = {} if self.ctx.guards.reset_followers_on_new_leadership else self.former_followers
            self.role = role = LeaderRole(self, known)
        try:
            role.begin_epoch(state, now)
        except StorageFailure:
            self.step_down()  # it cannot lead an epoch that it cannot open
            raise

    def become_follower(self, assignment: PartitionAssignment, now: Millis) -> None:
        state = assignment.state
        before = self.role
        self.step_down()
        self._assigned(assignment, now)
        self.ctx.emit(events.BecameFollower(self.ctx.broker, self.tp, state.leader_epoch, state.leader))
        self.role = role = FollowerRole(self, state.leader, state.leader_epoch)
        same_leader = isinstance(before, FollowerRole) and before.leader == state.leader
        if self._stays_behind(state):
            role.stay_behind(now)
        elif same_leader and not self.ctx.guards.truncate_on_every_epoch:
            role.fetch()
        else:
            role.begin(now)

    def _stays_behind(self, state: PartitionState) -> bool:
        """Whether this broker shuts down, so that it does not follow. Kafka 4 goes on where it is in sync."""
        if not self.ctx.is_leaving:
            return False
        return not self.ctx.generation.tracks_eligible_leaders or self.ctx.broker not in state.isr

    def _leaves_within_epoch(self, state: PartitionState) -> bool:
        return self.ctx.generation.tracks_eligible_leaders and self._stays_behind(state)

    def _assigned(self, assignment: PartitionAssignment, now: Millis) -> None:
        self.replicas = assignment.replicas
        self.leader_epoch = assignment.state.leader_epoch
        if self.in_use_since == NEVER:
            self.in_use_since = now

    def follow_nobody(self, assignment: PartitionAssignment, now: Millis) -> None:
        """The partition has no leader in this epoch. As in KRaft an old leader stops leading at once."""
        self.step_down()
        self._assigned(assignment, now)
        self.ctx.emit(events.BecameFollower(self.ctx.broker, self.tp, self.leader_epoch, NO_LEADER))

    def take_isr(self, assignment: PartitionAssignment, now: Millis) -> None:
        """A state of the current epoch. Only under ``elr`` can it be news."""
        role, state = self.role, assignment.state
        if (
            isinstance(role, LeaderRole)
            and state.leader_epoch == role.epoch
            and state.version > role.version
            and self.ctx.generation.tracks_eligible_leaders
        ):
            self.replicas = assignment.replicas
            role.take_isr(state, now)
        elif isinstance(role, FollowerRole) and self._leaves_within_epoch(state):
            self._stop_following()
            role.stay_behind(now)

    def step_down(self) -> None:
        """Give up the role: answer waiting requests with an error, stop fetching."""
        self._stop_following()
        if self.follower_reads is not None:
            self.follower_reads.release_all()
        role, self.role = self.role, None
        if isinstance(role, LeaderRole):
            self.former_followers = role.followers
            role.abdicate(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _stop_following(self) -> None:
        if isinstance(self.role, FollowerRole):
            self.ctx.stop_following(self.role.leader, self.tp)

    # ------------------------------------------------------------ the log, epochs and producers

    def append_as_leader(self, batch: Batch) -> Batch:
        log = self.log
        stored = log.append_as_leader(
            batch, self.leader_epoch if self.ctx.generation.stamps_epochs else NO_EPOCH
        )
        if stored.leader_epoch > log.epochs.latest_epoch:
            log.epochs.assign(LeaderEpoch(stored.leader_epoch), stored.base_offset)
            log.epochs_changed()
        if stored.producer_id != NO_PRODUCER:
            self.producers.append(stored)
        return stored

    def append_as_follower(self, batches: Sequence[Batch]) -> None:
        log = self.log
        if batches[0].base_offset < log.end_offset:
            if log.end_offset == log.start_offset:
                # The leader's log starts inside a batch, and so would this one: take the whole batch.
                log.restart_at(batches[0].base_offset)
            else:
                batches = self.ctx.generation.beyond_end(log, batches)
        for batch in batches:
            if batch.leader_epoch not in (NO_EPOCH, log.epochs.latest_epoch):
                log.epochs.assign(LeaderEpoch(batch.leader_epoch), batch.base_offset)
                log.epochs_changed()
            log.append_as_follower(batch)
            if batch.producer_id != NO_PRODUCER:
                self.producers.append(batch)

    def truncate_to(
        self,
        offset: Offset,
        rule: TruncationRule,
        *,
        epoch: LeaderEpoch | None = None,
        epoch_end: Offset | None = None,
        own_epoch: LeaderEpoch | None = None,
    ) -> None:
        """Drop the tail of the log, if there is one beyond ``offset``.

        The epoch cache is truncated in any case: an epoch in which this replica led without a write starts at
        the log end, and would contradict the records that are fetched there.
        """
        log = self.log
        before = log.end_offset
        if offset < before:
            log.truncate_to(offset)
        if log.epochs.latest_epoch != NO_EPOCH:
            log.epochs.truncate_from_end(log.end_offset)
            log.epochs_changed()
        if log.end_offset == before:
            return
        self.high_watermark = min(self.high_watermark, log.end_offset)
        log.restore_producers(self.producers)
        self.ctx.emit(
            events.Truncated(
                self.ctx.broker, self.tp, before, log.end_offset, rule, epoch, epoch_end, own_epoch
            )
        )

    def restart_at(self, offset: Offset) -> None:
        """The leader has deleted everything up to ``offset``, so this log must restart there."""
        log = self.log
        before = log.end_offset
        log.restart_at(offset)
        log.epochs.truncate_from_end(0)
        log.epochs_changed()
        log.restore_producers(self.producers)
        self.high_watermark = offset
        self.ctx.emit(
            events.Truncated(self.ctx.broker, self.tp, before, offset, TruncationRule.LEADER_LOG_STARTS_LATER)
        )

    def advance_start(self, offset: Offset) -> None:
        """Delete records from the front: by retention, by DeleteRecords, or after the leader."""
        log = self.log
        if offset > log.start_offset:
            log.advance_start(offset)
            log.epochs.truncate_from_start(offset)
            log.epochs_changed()

    def storage_failed(self, failure: StorageFailure) -> None:
        self.ctx.emit(events.StorageFailed(self.ctx.broker, self.tp, str(failure)))

    def write_failed(self, failure: StorageFailure, now: Millis) -> None:
        """The same for a failed write: also ask the controller to continue without this replica."""
        self.storage_failed(failure)
        role = type(self.role)
        if now >= self._relief_due.get(role, 0) and len(self.replicas) > 1:
            self._relief_due[role] = now + RELIEF_MS
            self.ctx.ask_relief(self.tp, self.leader_epoch)

    # ------------------------------------------------------------ requests that only a leader serves

    def _refusal(self, current_leader_epoch: LeaderEpoch, *, from_any_replica: bool = False) -> ErrorCode:
        """Epochs are checked before leadership, because their errors are more specific (KIP-320)."""
        if current_leader_epoch != NO_EPOCH and self.ctx.guards.fence_fetch_by_epoch:
            if current_leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch > self.leader_epoch:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
        if from_any_replica or isinstance(self.role, LeaderRole):
            return NO_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def produce(self, request: ProduceRequest, reply_to: ReplyTo, now: Millis) -> None:
        role = self.role
        if isinstance(role, LeaderRole):
            role.produce(request, reply_to, now)
        elif request.acks != 0:
            self.ctx.reply(reply_to, ProduceResponse(self.tp, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def fetch(self, request: FetchRequest, reply_to: ReplyTo, now: Millis) -> None:
        from_any = request.from_any_replica and self.ctx.generation.followers_serve_consumers
        error = self._refusal(request.current_leader_epoch, from_any_replica=from_any)
        asked, own = request.topic_id, self.log.topic_id
        if asked != own and asked and own:
            error = ErrorCode.INCONSISTENT_TOPIC_ID
        role = self.role
        if error is not NO_ERROR:
            self.ctx.reply(
                reply_to, FetchResponse(self.tp, error, request.offset, request.current_leader_epoch)
            )
        elif isinstance(role, LeaderRole):
            role.fetch(request, reply_to, now)
        else:
            reads = self.follower_reads
            if reads is None:
                self.follower_reads = reads = WaitingFetches(self)
            if not reads.out_of_range(request, reply_to):
                reads.answer_or_park(request, reply_to, self.high_watermark, now)

    @property
    def _waiting_fetches(self) -> WaitingFetches | None:
        role = self.role
        return role.fetches if isinstance(role, LeaderRole) else self.follower_reads

    def release_fetch(self, reply_to: ReplyTo) -> None:
        """Answer a parked fetch now, because another partition of its request has data."""
        fetches = self._waiting_fetches
        if fetches is not None:
            fetches.release_one(reply_to)

    def withdraw_fetch(self, reply_to: ReplyTo) -> FetchRequest | None:
        """Forget a parked fetch: there is no use for its answer any more."""
        fetches = self._waiting_fetches
        return None if fetches is None else fetches.withdraw(reply_to)

    def renew_fetch(self, reply_to: ReplyTo, now: Millis) -> None:
        """A follower whose fetch waits is there and asks again for the same, with a request that does not
        name the partition. The same rules hold for it as for the first time."""
        parked = self.withdraw_fetch(reply_to)
        if parked is not None:
            self.fetch(parked, reply_to, now)

    def epoch_end(self, request: EpochEndRequest, reply_to: ReplyTo) -> None:
        error = self._refusal(request.current_leader_epoch)
        response = EpochEndResponse(
            tp=self.tp,
            error=error,
            current_leader_epoch=request.current_leader_epoch,
            asked_epoch=request.asked_epoch,
        )
        if error is NO_ERROR:
            end = self.ctx.generation.epoch_end(self.log, request.asked_epoch)
            response.epoch, response.end_offset = end
        self.ctx.reply(reply_to, response)

    def delete_records(self, request: DeleteRecordsRequest, reply_to: ReplyTo, now: Millis) -> None:
        role = self.role
        if isinstance(role, LeaderRole):
            role.delete_records(request, reply_to, now)
        else:
            self.ctx.reply(
                reply_to, DeleteRecordsResponse(tp=self.tp, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            )

    def list_offsets(self, request: ListOffsetsRequest, reply_to: ReplyTo) -> None:
        error = self._refusal(request.current_leader_epoch)
        response = ListOffsetsResponse(
            tp=self.tp, error=error, current_leader_epoch=request.current_leader_epoch
        )
        role = self.role
        if error is NO_ERROR and isinstance(role, LeaderRole):
            response.error, response.offset = role.end_offset_for(request.replica)
            response.log_start_offset = self.log.start_offset
        self.ctx.reply(reply_to, response)
