"""Requests of the controller to a broker: roles, metadata, deletions, votes.

A request is refused if it comes from an old controller, or is meant for an earlier registration of this
broker. A request before the registration waits; a LeaderAndIsr also waits until the settings of its topics
are known (``topic_configs.py``). Order is kept: a repeated LeaderAndIsr that is executed after a later
deletion would undo it.

A request is always answered, and a failed partition does not affect the others: it gets its own error in the
answer. If the disk refuses, the replica is *offline* here until the controller asks again and the disk works.
After a bug the answer is UNKNOWN_SERVER_ERROR: without an answer the controller would repeat the request
forever and send nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tidelog.core import events
from tidelog.core.effects import ReplyTo
from tidelog.core.log_port import Log, Storage, StorageFailure
from tidelog.core.messages import (
    NO_ERROR,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    PartitionAssignment,
    PartitionErrors,
    StopReplicaRequest,
    UpdateMetadataRequest,
    VoteRequest,
    VoteResponse,
)
from tidelog.core.reasons import StrayReason
from tidelog.core.replication.isr_proposals import IsrProposals
from tidelog.core.replication.replica import Replica
from tidelog.core.topic_configs import TopicConfigs
from tidelog.core.types import (
    LEADER_DURING_DELETION,
    NO_BROKER_EPOCH,
    NO_LEADER,
    InvariantViolation,
    Millis,
    TopicId,
    TopicPartition,
)
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.core.broker import Broker


class ControlRequests:
    __slots__ = (
        "_broker",
        "_configs",
        "_ctx",
        "_early",
        "_metadata",
        "_offline",
        "_preparing",
        "_proposals",
        "_replicas",
        "_storage",
        "_waiting",
    )

    def __init__(
        self, broker: Broker, storage: Storage, configs: TopicConfigs, proposals: IsrProposals
    ) -> None:
        self._broker = broker
        self._ctx = broker.ctx
        self._metadata = broker.metadata
        self._replicas = broker.replicas
        self._storage = storage
        self._configs = configs
        self._proposals = proposals
        self._early: list[tuple[ControlRequest, ReplyTo]] = []
        self._waiting: deque[tuple[ControlRequest, ReplyTo]] = deque()
        """Requests behind one that waits."""
        self._preparing = False
        self._offline: dict[TopicPartition, str] = {}

    @property
    def offline(self) -> Mapping[TopicPartition, str]:
        """Assigned replicas whose log this broker cannot use, and why."""
        return self._offline

    def session_started(self) -> None:
        """Waiting requests were meant for the old registration: the controller will send them again."""
        self._waiting.clear()
        self._preparing = False

    def registered(self) -> None:
        early, self._early = self._early, []
        for request, sender in early:
            self.receive(request, sender, self._ctx.now)

    def receive(self, request: ControlRequest, sender: ReplyTo, now: Millis) -> None:
        if self._ctx.guards.broker_epoch and self._ctx.broker_epoch == NO_BROKER_EPOCH:
            self._early.append((request, sender))
        elif self._preparing:
            self._waiting.append((request, sender))
        elif isinstance(request, LeaderAndIsrRequest) and self._refusal(request) is NO_ERROR:
            self._preparing = True
            topics = (partition.tp.topic for partition in request.partitions)
            self._configs.when_known(
                topics, self._metadata.topics, lambda: self._prepared(request, sender, now)
            )
        else:
            self._obey(request, sender, now)

    def _prepared(self, request: LeaderAndIsrRequest, sender: ReplyTo, now: Millis) -> None:
        self._preparing = False
        now = max(now, self._ctx.now)  # it may have waited for this notice of the keeper
        self._obey(request, sender, now)
        while self._waiting and not self._preparing:
            self.receive(*self._waiting.popleft(), now)

    def _obey(self, request: ControlRequest, sender: ReplyTo, now: Millis) -> None:
        error = self._refusal(request)
        response = _refused(request, error)
        if error is not NO_ERROR:
            name = type(request).__name__
            self._ctx.emit(events.ControlRequestRefused(self._ctx.broker, name, error))
        else:
            try:
                self._recognise(request)
                response = self._carry_out(request, now)
            except InvariantViolation:
                raise
            except Exception as bug:
                self._ctx.unexpected(bug)
                response = _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        self._ctx.reply(sender, response)

    def _carry_out(self, request: ControlRequest, now: Millis) -> ControlResponse | VoteResponse:
        errors: PartitionErrors = {}
        if isinstance(request, VoteRequest):
            return self._vote(request, now)
        if isinstance(request, LeaderAndIsrRequest):
            errors = self._lead_and_follow(request, now)
        elif isinstance(request, UpdateMetadataRequest):
            self._update_metadata(request, now)
        elif isinstance(request, StopReplicaRequest):
            errors = self._stop_replicas(request, now)
        return ControlResponse(request_id=request.request_id, error=NO_ERROR, partition_errors=errors)

    def _refusal(self, request: ControlRequest) -> ErrorCode:
        guards = self._ctx.guards
        if request.controller_epoch < self._broker.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if guards.broker_epoch and request.broker_epoch < self._ctx.broker_epoch:
            # Meant for an earlier registration of this broker. (A larger epoch is valid: after a lost session
            # the controller may learn of the new registration before this broker does.)
            return ErrorCode.STALE_BROKER_EPOCH
        return NO_ERROR

    def _recognise(self, request: ControlRequest) -> None:
        broker = self._broker
        if broker.controller_epoch != request.controller_epoch:
            # A new controller, or a new registration of the old one: it does not know earlier requests of
            # this broker.
            broker.controller_epoch = request.controller_epoch
            broker.known_controller = request.controller
            if self._ctx.generation.isr_through_controller:
                self._proposals.repeat()

    # ------------------------------------------------------------ roles

    def _lead_and_follow(self, request: LeaderAndIsrRequest, now: Millis) -> PartitionErrors:
        errors: PartitionErrors = {}
        for partition in request.partitions:
            error = self._attempt(partition.tp, partial(self._take_role, partition, now))
            if error is not NO_ERROR:
                errors[partition.tp] = error
            elif self._offline.pop(partition.tp, None) is not None:
                self._ctx.emit(events.ReplicaCameOnline(self._ctx.broker, partition.tp))
        self._broker.schedule_checkpoint(now)
        return errors

    def _take_role(self, partition: PartitionAssignment, now: Millis) -> None:
        leader = partition.state.leader
        replica = self._replica(partition.tp, partition.topic_id)
        if partition.state.leader_epoch <= replica.leader_epoch:
            replica.take_isr(partition, now)
        elif leader == self._ctx.broker:
            replica.become_leader(partition, now)
        elif leader in self._metadata.live_brokers:
            replica.become_follower(partition, now)
        elif leader == NO_LEADER and self._ctx.generation.tracks_eligible_leaders:
            replica.follow_nobody(partition, now)
        # Otherwise there is no leader to follow. Keep the old role and epoch: the controller will send
        # another request.

    def _attempt(self, tp: TopicPartition, change: Callable[[], object]) -> ErrorCode:
        """Execute a request for one partition, and return the error for the answer."""
        try:
            change()
        except StorageFailure as failure:
            reason = str(failure)
            if self._offline.get(tp) != reason:
                self._offline[tp] = reason
                self._ctx.emit(events.ReplicaWentOffline(self._ctx.broker, tp, reason))
            return ErrorCode.KAFKA_STORAGE_ERROR
        except InvariantViolation:
            raise
        except Exception as bug:
            self._ctx.unexpected(bug)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return NO_ERROR

    def _replica(self, tp: TopicPartition, topic_id: TopicId) -> Replica:
        replica = self._replicas.get(tp)
        if replica is not None and _differ(replica.log.topic_id, topic_id):
            # It has missed the deletion of the topic, and is a leader or a follower of it still.
            del self._replicas[tp]
            replica.step_down()
            replica = None
        if replica is None:
            log = self._log(tp, topic_id)  # which may lower the high watermark
            high_watermark = self._storage.checkpointed_high_watermark(tp)
            replica = self._replicas[tp] = Replica(self._ctx, tp, log, high_watermark)
        elif topic_id and not replica.log.topic_id:
            replica.log.identify(topic_id)
        return replica

    def _log(self, tp: TopicPartition, topic_id: TopicId) -> Log:
        log = self._storage.open(tp)
        if _differ(log.topic_id, topic_id):
            self._storage.set_aside(tp)
            self._ctx.emit(events.StrayReplicaFound(self._ctx.broker, tp, StrayReason.EARLIER_TOPIC))
            log = self._storage.open(tp)
        if topic_id and not log.topic_id:
            log.identify(topic_id)
        return log

    def _stop_replicas(self, request: StopReplicaRequest, now: Millis) -> PartitionErrors:
        errors: PartitionErrors = {}
        stored = set(self._storage.partitions()) if request.delete else set()
        for tp in request.partitions:
            replica = self._replicas.get(tp)
            if replica is not None:
                replica.step_down()
            if request.delete or tp not in self._metadata:
                # Its leader epoch is forgotten too: a later partition of this name starts at 0 again.
                self._replicas.pop(tp, None)
            if tp in stored:  # otherwise it was deleted before, which a new controller cannot know
                error = self._attempt(tp, partial(self._storage.delete, tp))
                if error is not NO_ERROR:
                    errors[tp] = error
                    continue
                self._ctx.emit(events.ReplicaDeleted(self._ctx.broker, tp))
            self._offline.pop(tp, None)
        return errors

    def _vote(self, request: VoteRequest, now: Millis) -> VoteResponse:
        tp = request.tp
        response = VoteResponse(
            request_id=request.request_id, tp=tp, error=NO_ERROR, leader_epoch=request.leader_epoch
        )
        topic_id = self._metadata.topic_id(tp.topic)
        response.error = self._attempt(tp, partial(self._replica, tp, topic_id))
        replica = self._replicas.get(tp)
        if replica is None:
            return response
        if request.leader_epoch < replica.leader_epoch:
            response.error = ErrorCode.FENCED_LEADER_EPOCH
        else:
            replica.step_down()
            replica.leader_epoch = request.leader_epoch
            response.last_epoch = replica.log.epochs.latest_epoch
            response.end_offset = replica.log.end_offset
        return response

    # ------------------------------------------------------------ metadata

    def _update_metadata(self, request: UpdateMetadataRequest, now: Millis) -> None:
        complete = self._metadata.is_complete(request)
        appeared = self._appearing(request)
        for topic in self._metadata.update(request):
            self._configs.forget(topic)
        if appeared and not complete:
            self._configs.topics_appeared(appeared)
        if complete:
            self._configs.topics_listed(self._metadata.topics)
            deleting = {
                partition.tp
                for partition in request.partitions
                if partition.state.leader == LEADER_DURING_DELETION
            }
            for tp in self._storage.partitions():
                if tp not in deleting:  # otherwise the controller will send a request for it
                    self._check_belonging(tp, now)
            for tp in [tp for tp in self._offline if tp not in self._metadata]:
                del self._offline[tp]

    def _appearing(self, request: UpdateMetadataRequest) -> list[str]:
        """The new topics of this request, without those of which this broker already has a replica: their
        settings are known."""
        known = self._metadata.topics
        partitions = [partition.tp for partition in request.partitions if partition.tp.topic not in known]
        if not partitions:
            return []
        ours = {tp.topic for tp in partitions if tp in self._replicas}
        return [topic for topic in dict.fromkeys(tp.topic for tp in partitions) if topic not in ours]

    def _check_belonging(self, tp: TopicPartition, now: Millis) -> None:
        """Report logs of partitions that are not assigned to this broker. They are kept: only an
        administrator can decide."""
        assignment = self._metadata.get(tp)
        if assignment is not None and self._ctx.broker in assignment.replicas:
            return  # if its log is of an earlier topic, it is put aside once it has a role
        stray = events.StrayReplicaFound(self._ctx.broker, tp, StrayReason.NO_SUCH_PARTITION)
        if assignment is not None:
            stray.reason, stray.replicas = StrayReason.LIVES_ELSEWHERE, assignment.replicas
        self._ctx.emit(stray)
        replica = self._replicas.pop(tp, None)
        if replica is not None:
            replica.step_down()


def _differ(one: TopicId, other: TopicId) -> bool:
    return one != other and bool(one and other)


def _refused(request: ControlRequest, error: ErrorCode) -> ControlResponse | VoteResponse:
    """The answer to a request that is refused as a whole."""
    if isinstance(request, VoteRequest):
        return VoteResponse(
            request_id=request.request_id, tp=request.tp, error=error, leader_epoch=request.leader_epoch
        )
    return ControlResponse(request_id=request.request_id, error=error)
