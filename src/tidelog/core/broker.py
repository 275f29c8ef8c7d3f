"""The core of one broker: its replicas, its metadata, its controller. Inputs in, effects out.

The driver (simulator or process) passes in messages, notices of the keeper, connections and time, and
executes ``effects`` after each input. Nothing here waits, blocks or reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidelog.core import events, keeper_paths
from tidelog.core.broker_configs import Obey
from tidelog.core.config import BrokerConfig
from tidelog.core.context import Context, Effect
from tidelog.core.controller.controller import Controller
from tidelog.core.departure import Departure
from tidelog.core.effects import Outbox, ReplyTo, Stopped
from tidelog.core.generations import Generation
from tidelog.core.guards import Guards
from tidelog.core.keeper_port import KeeperReply, SessionResumed, SessionStarted, WatchFired
from tidelog.core.keeper_tasks import KeeperClient
from tidelog.core.log_port import Storage
from tidelog.core.messages import (
    AlterIsrRequest,
    AlterIsrResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControlRequest,
    ControlResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ElectLeadersRequest,
    EpochEndRequest,
    EpochEndResponse,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    LeaderAndIsrRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    Message,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
    RelieveReplicaRequest,
    RelieveReplicaResponse,
    StopReplicaRequest,
    UpdateMetadataRequest,
    VoteRequest,
    VoteResponse,
)
from tidelog.core.metadata_cache import MetadataCache
from tidelog.core.producer_ids import ProducerIds
from tidelog.core.replication.control_requests import ControlRequests
from tidelog.core.replication.follower import FollowerRole
from tidelog.core.replication.isr_proposals import IsrProposals
from tidelog.core.replication.replica import Replica
from tidelog.core.topic_configs import TopicConfigs
from tidelog.core.topic_messages import (
    AlterBrokerConfigRequest,
    AlterReassignmentRequest,
    AlterTopicConfigRequest,
    CreatePartitionsRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    DescribeTopicConfigRequest,
    ListReassignmentsRequest,
)
from tidelog.core.types import (
    NO_CONTROLLER_EPOCH,
    NO_LEADER,
    BrokerEndpoint,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Millis,
    TopicConfig,
    TopicPartition,
)
from tidelog.wire.errors import ErrorCode


class Broker:
    __slots__ = (
        "_checkpoint_due",
        "_configs",
        "_controlled",
        "_departure",
        "_keeper",
        "_producer_ids",
        "_proposals",
        "_storage",
        "controller",
        "controller_epoch",
        "ctx",
        "effects",
        "known_controller",
        "metadata",
        "replicas",
    )

    def __init__(
        self,
        broker: BrokerId,
        storage: Storage,
        generation: Generation,
        config: BrokerConfig,
        *,
        guards: Guards | None = None,
        registration: BrokerEndpoint | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self.ctx = Context(broker, config, generation, guards or generation.guards, outbox)
        self.effects: list[Effect] = self.ctx.effects
        self._storage = storage
        self._keeper = KeeperClient(self.ctx)
        self._proposals = IsrProposals(self, self._keeper)
        self.ctx.propose_isr = self._proposals.propose
        self.ctx.ask_relief = self._ask_relief
        self.ctx.exit = self.stop
        self.ctx.is_alive = self._is_alive
        self.ctx.rack_of = self._rack_of
        self._configs = TopicConfigs(self.ctx, self._keeper, self.configure_topic, self._is_controller)
        self._producer_ids = ProducerIds(self.ctx, self._keeper)
        self.controller = Controller(
            self.ctx, self._keeper, registration, storage, self._configs, on_registered=self._registered
        )
        self.replicas: dict[TopicPartition, Replica] = {}
        self.metadata = MetadataCache(isr_without_leader=generation.tells_isr_without_leader)
        self.known_controller = NO_LEADER
        self.controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
        self._checkpoint_due = False
        self._departure = Departure(self.ctx, self._leave)
        self._controlled = ControlRequests(self, storage, self._configs, self._proposals)

    # ------------------------------------------------------------ inputs

    def receive(self, sender: ReplyTo, message: Message, now: Millis) -> None:
        """A request of ``sender``, or an answer of the broker ``sender``."""
        _HANDLERS[type(message)](self, message, sender, now)

    def keeper_notice(
        self, notice: KeeperReply | WatchFired | SessionStarted | SessionResumed, now: Millis
    ) -> None:
        self.ctx.now = now
        if isinstance(notice, KeeperReply):
            self._keeper.answered(notice)
        elif isinstance(notice, WatchFired):
            if notice.path == keeper_paths.CONFIG_CHANGES:
                self._configs.changed()
            else:
                self.controller.watch_fired(notice.path)
        elif isinstance(notice, SessionStarted):
            self._keeper.forget()
            self.controller.session_started(notice.session)
            self._configs.session_started()
            self._controlled.session_started()
            self._proposals.session_started(now)
            self._producer_ids.session_started()
        else:
            self._keeper.resend()

    def connected(self, peer: BrokerId) -> None:
        """A connection to ``peer`` was lost and is open again: repeat unanswered requests."""
        for replica in self.replicas.values():
            role = replica.role
            if isinstance(role, FollowerRole) and role.leader == peer:
                role.resend()
        if peer == self.known_controller and self.ctx.generation.isr_through_controller:
            self._proposals.repeat()
        self.controller.connected(peer)
        self._departure.connected(peer)

    def obey_settings(self, obey: Obey) -> None:
        """The driver obeys settings that are changed while it runs, and is called at each change."""
        self._configs.brokers.obey(obey)

    def keep_producer_ids(self) -> None:
        """Reserve producer ids before the first producer asks."""
        self._producer_ids.keep_reserve()

    def release_fetch(self, reply_to: ReplyTo, tp: TopicPartition) -> None:
        """Answer a parked fetch now, because another partition of its request has data."""
        replica = self.replicas.get(tp)
        if replica is not None:
            replica.release_fetch(reply_to)

    def withdraw_fetch(self, reply_to: ReplyTo, tp: TopicPartition) -> None:
        """Forget a parked fetch: there is no use for its answer any more."""
        replica = self.replicas.get(tp)
        if replica is not None:
            replica.withdraw_fetch(reply_to)

    def renew_fetch(self, reply_to: ReplyTo, tp: TopicPartition, now: Millis) -> Replica | None:
        """The follower of a parked fetch asks again, without naming the partition. Returns the replica."""
        replica = self.replicas.get(tp)
        if replica is not None:
            committed = replica.high_watermark
            replica.renew_fetch(reply_to, now)
            if replica.high_watermark != committed:
                self.schedule_checkpoint(now)
        return replica

    def wake(self, now: Millis) -> None:
        next_wake = self.ctx.timers.fire(now, self.ctx.unexpected)
        if next_wake is not None:
            self.ctx.wake_at(next_wake)

    def _ask_relief(self, tp: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        if self.known_controller != NO_LEADER:
            ctx = self.ctx
            request = RelieveReplicaRequest(
                tp=tp, broker=ctx.broker, broker_epoch=ctx.broker_epoch, leader_epoch=leader_epoch
            )
            ctx.send(self.known_controller, request)

    def _is_alive(self, broker: BrokerId) -> bool:
        return broker in self.metadata.live_brokers

    def _rack_of(self, broker: BrokerId) -> str | None:
        endpoint = self.metadata.endpoints.get(broker)
        return None if endpoint is None else endpoint.rack

    def _is_controller(self) -> bool:
        return self.controller.active

    def configure_topic(self, topic: str, config: TopicConfig, *, min_isr_written: bool = False) -> None:
        """``min_isr_written``: min.insync.replicas was set or removed, if only to what it was by default."""
        before = self.ctx.topic_configs.get(topic, config)
        self.ctx.topic_configs[topic] = config
        if min_isr_written or config.min_insync_replicas != before.min_insync_replicas:
            self.controller.min_isr_changed(topic)
        if config.unclean_leader_election and self.ctx.generation.elects_when_unclean_allowed:
            self.controller.unclean_election_enabled(topic)

    def stop(self, now: Millis) -> None:
        """Begin a controlled shutdown: leadership moves first. Ends with the effect ``Stopped``; without an
        answer of a controller after a few attempts, and without having moved anything."""
        self._departure.begin(now)

    def leave(self) -> None:
        """End a controlled shutdown that cannot succeed."""
        self._departure.leave()

    # ------------------------------------------------------------ clients and followers

    @property
    def offline(self) -> Mapping[TopicPartition, str]:
        """Replicas of this broker that it cannot use, and why."""
        return self._controlled.offline

    def _serving(self, tp: TopicPartition) -> Replica | None:
        """The replica that answers for a partition. A process that has just started has logs, but does not
        serve them before a controller tells it of the partition."""
        replica = self.replicas.get(tp)
        if replica is None or (replica.role is None and tp not in self.metadata):
            return None
        return replica

    def _missing(self, tp: TopicPartition) -> ErrorCode:
        if tp in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if tp in self.metadata and self.ctx.generation.names_partitions_of_others:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _produce(self, request: ProduceRequest, sender: ReplyTo, now: Millis) -> None:
        replica = self._serving(request.tp)
        if replica is not None:
            replica.produce(request, sender, now)
            self.schedule_checkpoint(now)
        elif request.acks != 0:
            self.ctx.reply(sender, ProduceResponse(request.tp, self._missing(request.tp)))

    def _fetch(self, request: FetchRequest, sender: ReplyTo, now: Millis) -> None:
        replica = self._serving(request.tp)
        if replica is not None:
            replica.fetch(request, sender, now)
            self.schedule_checkpoint(now)
        else:
            error = self._missing(request.tp)
            self.ctx.reply(
                sender, FetchResponse(request.tp, error, request.offset, request.current_leader_epoch)
            )

    def _epoch_end(self, request: EpochEndRequest, sender: ReplyTo, _now: Millis) -> None:
        replica = self._serving(request.tp)
        if replica is not None:
            replica.epoch_end(request, sender)
        else:
            error = self._missing(request.tp)
            epoch, asked = request.current_leader_epoch, request.asked_epoch
            self.ctx.reply(
                sender,
                EpochEndResponse(tp=request.tp, error=error, current_leader_epoch=epoch, asked_epoch=asked),
            )

    def _list_offsets(self, request: ListOffsetsRequest, sender: ReplyTo, _now: Millis) -> None:
        replica = self._serving(request.tp)
        if replica is not None:
            replica.list_offsets(request, sender)
        else:
            error = self._missing(request.tp)
            self.ctx.reply(
                sender,
                ListOffsetsResponse(
                    tp=request.tp, error=error, current_leader_epoch=request.current_leader_epoch
                ),
            )

    def _delete_records(self, request: DeleteRecordsRequest, sender: ReplyTo, now: Millis) -> None:
        replica = self._serving(request.tp)
        if replica is not None:
            replica.delete_records(request, sender, now)
        else:
            self.ctx.reply(sender, DeleteRecordsResponse(tp=request.tp, error=self._missing(request.tp)))

    def _alter_config(self, request: AlterTopicConfigRequest, sender: ReplyTo, _now: Millis) -> None:
        self._configs.alter(request, sender)

    def _describe_config(self, request: DescribeTopicConfigRequest, sender: ReplyTo, _now: Millis) -> None:
        self._configs.describe(request, sender)

    def _alter_broker(self, request: AlterBrokerConfigRequest, sender: ReplyTo, _now: Millis) -> None:
        self._configs.brokers.alter(request, sender)

    def _init_producer_id(self, _request: InitProducerIdRequest, sender: ReplyTo, _now: Millis) -> None:
        self._producer_ids.init(sender)

    def _describe(self, _request: MetadataRequest, sender: ReplyTo, _now: Millis) -> None:
        live = tuple(self.metadata.live_brokers)
        self.ctx.reply(
            sender,
            MetadataResponse(
                live_brokers=live, controller=self.known_controller, partitions=self.metadata.states()
            ),
        )

    # ------------------------------------------------------------ answers from leaders

    def _follower(self, tp: TopicPartition) -> FollowerRole | None:
        replica = self.replicas.get(tp)
        return replica.role if replica is not None and isinstance(replica.role, FollowerRole) else None

    def _fetched(self, response: FetchResponse, _sender: ReplyTo, now: Millis) -> None:
        role = self._follower(response.tp)
        if role is not None:
            role.fetched(response, now)
            self.schedule_checkpoint(now)

    def _epoch_end_answered(self, response: EpochEndResponse, _sender: ReplyTo, now: Millis) -> None:
        role = self._follower(response.tp)
        if role is not None:
            role.epoch_end_answered(response, now)

    def _leader_end_answered(self, response: ListOffsetsResponse, _sender: ReplyTo, now: Millis) -> None:
        role = self._follower(response.tp)
        if role is not None:
            role.leader_end_answered(response, now)

    # ------------------------------------------------------------ the controller's requests

    def _registered(self) -> None:
        self._proposals.repeat()
        self._controlled.registered()

    def _control(self, request: ControlRequest, sender: ReplyTo, now: Millis) -> None:
        self._controlled.receive(request, sender, now)
        self._departure.heard_of(self.known_controller, now)

    # ------------------------------------------------------------ requests to the controller, and its answers

    def _control_answered(self, response: ControlResponse, sender: Any, now: Millis) -> None:
        self.controller.control_answered(sender, response, now)

    def _vote_answered(self, response: VoteResponse, sender: Any, now: Millis) -> None:
        self.controller.vote_answered(sender, response, now)

    def _isr_answered(self, response: AlterIsrResponse, _sender: ReplyTo, now: Millis) -> None:
        self._proposals.answered(response, now)

    def _relief_answered(self, _response: RelieveReplicaResponse, _sender: ReplyTo, _now: Millis) -> None:
        """The result arrives as a LeaderAndIsr. Without one, the replica asks again."""

    def _ask_controller(self, request: Message, sender: ReplyTo, _now: Millis) -> None:
        self.controller.asked(request, sender)

    def _shutdown_answered(self, response: ControlledShutdownResponse, _sender: ReplyTo, now: Millis) -> None:
        self._departure.answered(response, now)

    def _leave(self) -> None:
        self._checkpoint(0)
        self.effects.append(Stopped())

    # ------------------------------------------------------------ the high-watermark checkpoint

    def schedule_checkpoint(self, now: Millis) -> None:
        """Checkpoint the high watermarks at the next tick of a fixed grid, if any may have changed."""
        if not self._checkpoint_due:
            self._checkpoint_due = True
            interval = self.ctx.config.high_watermark_checkpoint_interval_ms
            self.ctx.set_timer((now // interval + 1) * interval, self._checkpoint)

    def _checkpoint(self, _now: Millis) -> None:
        self._checkpoint_due = False
        storage = self._storage
        offsets = {tp: replica.high_watermark for tp, replica in self.replicas.items()}
        changed = {tp: hw for tp, hw in offsets.items() if storage.checkpointed_high_watermark(tp) != hw}
        storage.checkpoint_high_watermarks(offsets)
        if changed:
            self.ctx.emit(events.HighWatermarksCheckpointed(self.ctx.broker, changed))


_HANDLERS: dict[type, Callable[[Broker, Any, Any, Millis], None]] = {
    ProduceRequest: Broker._produce,
    FetchRequest: Broker._fetch,
    FetchResponse: Broker._fetched,
    EpochEndRequest: Broker._epoch_end,
    EpochEndResponse: Broker._epoch_end_answered,
    ListOffsetsRequest: Broker._list_offsets,
    ListOffsetsResponse: Broker._leader_end_answered,
    DeleteRecordsRequest: Broker._delete_records,
    AlterTopicConfigRequest: Broker._alter_config,
    DescribeTopicConfigRequest: Broker._describe_config,
    AlterBrokerConfigRequest: Broker._alter_broker,
    InitProducerIdRequest: Broker._init_producer_id,
    MetadataRequest: Broker._describe,
    LeaderAndIsrRequest: Broker._control,
    UpdateMetadataRequest: Broker._control,
    StopReplicaRequest: Broker._control,
    VoteRequest: Broker._control,
    ControlResponse: Broker._control_answered,
    VoteResponse: Broker._vote_answered,
    AlterIsrRequest: Broker._ask_controller,
    AlterIsrResponse: Broker._isr_answered,
    RelieveReplicaRequest: Broker._ask_controller,
    RelieveReplicaResponse: Broker._relief_answered,
    ElectLeadersRequest: Broker._ask_controller,
    CreateTopicRequest: Broker._ask_controller,
    DeleteTopicRequest: Broker._ask_controller,
    CreatePartitionsRequest: Broker._ask_controller,
    AlterReassignmentRequest: Broker._ask_controller,
    ListReassignmentsRequest: Broker._ask_controller,
    ControlledShutdownRequest: Broker._ask_controller,
    ControlledShutdownResponse: Broker._shutdown_answered,
}
