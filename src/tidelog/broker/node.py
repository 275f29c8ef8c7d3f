"""Connects the core with sockets, files and the keeper: passes inputs in, and executes every effect.

The core receives a request, a notice of the keeper, a connection or the time, and appends effects to a list.
``settle`` executes that list: answers to requests, messages to peers, calls to the keeper, wake-ups, events
for the recorder and the metrics. It runs once per read event, so that everything received together is sent
together.

Durability: as long as a log with ``flush=always`` has unsynced appends, *all* effects are held back, in
order, until an fsync that began after those appends has returned. Inputs are still accepted meanwhile, so one
fsync serves everything that arrived during the previous one (group commit), and an acknowledgement is never
ahead of the disk. Only reads of synced records do not wait.

One input must not harm the next. A bug is logged with its traceback and loses only its own input; a broken
invariant stops the broker, because acknowledgements from such a state cannot be trusted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, Protocol, cast

from tidelog.broker.coordinators.coordinators import CHANGES_OF_LEADERSHIP, Coordinators, topic_request
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.incident_log import Narration
from tidelog.broker.metrics.counters import Metrics
from tidelog.broker.peers.peers import Peers, StopFollowing
from tidelog.broker.running_settings import RunningSettings
from tidelog.broker.server import Server
from tidelog.broker.throttles import Throttles
from tidelog.broker.topic_settings import TopicSettings
from tidelog.broker.wanted_topics import WantedTopics
from tidelog.core.broker import Broker
from tidelog.core.effects import KeeperCall, Reply, Send, Stopped, WakeAt
from tidelog.core.events import BrokerExited, BrokerRegistered, HighWatermarkAdvanced, TopicConfigured
from tidelog.core.keeper_port import KeeperReply, SessionResumed, SessionStarted, WatchFired
from tidelog.core.messages import ControlledShutdownResponse, FetchResponse, Message, UpdateMetadataRequest
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.topic_messages import CreateTopicRequest, CreateTopicResponse
from tidelog.core.types import NO_LEADER, BrokerEndpoint, BrokerId, InvariantViolation, TopicPartition
from tidelog.evidence import process_events as happened
from tidelog.evidence.journals.recorder import EventRecorder
from tidelog.groups.records import TOPIC as OFFSETS_TOPIC
from tidelog.keeper.client import KeeperConnection
from tidelog.settings.broker import BROKER, Flush, Settings
from tidelog.settings.table import ConfigSource, Described
from tidelog.settings.topic import topic_defaults
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.file_log import FileLog
from tidelog.storage.log.recovery import Recovered
from tidelog.wire.errors import ErrorCode

KeeperNotice = KeeperReply | WatchFired | SessionStarted | SessionResumed


class Waiter(Protocol):
    """The sender of a request to the core, which receives the answer."""

    def deliver(self, message: Any) -> None: ...

    def __hash__(self) -> int: ...


class Node:
    def __init__(
        self,
        settings: Settings,
        storage: FileStorage,
        keeper: KeeperConnection,
        *,
        metrics: Metrics,
        recorder: EventRecorder | None,
        threads: Executor,
    ) -> None:
        self.id = BrokerId(settings.broker_id)
        self.settings = settings
        self.storage = storage
        self.metrics = metrics
        self.topics = TopicSettings(topic_defaults(settings), storage)
        self.running_settings = RunningSettings()
        self.throttles = Throttles(self.id, self.now, self.has_in_sync)
        self.registered = asyncio.Event()
        self.informed = asyncio.Event()
        """Set when a controller has sent the metadata of the cluster."""
        self.stopped = asyncio.Event()
        self.log = logging.getLogger("tidelog.node")
        self.leaving = False
        self.failure = ""
        """Why the broker stops by itself."""
        self._wanted_topics = WantedTopics(self._send_to_controller)
        self._leaving_since = 0
        self.cluster_id = ""
        # Created once the port is bound: the core registers the endpoint, the server passes requests.
        self.core: Broker
        self.server: Server
        self.endpoint: BrokerEndpoint
        self.peers = Peers(self)
        self.fetch_sessions = FetchSessions(settings.max_incremental_fetch_session_cache_slots, self.now)
        self.groups = Coordinators(self, settings)
        self.threads = threads
        self.keeper = keeper
        self._session = 0
        self.recorder = recorder
        self.narration = Narration()
        self._loop = asyncio.get_running_loop()
        self._wake_at: asyncio.TimerHandle | None = None
        self._held: list[Any] = []
        self._syncing = False
        self._ready: list[Callable[[], None]] = []
        self._local = _Local(self)
        self._carriers: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            KeeperCall: keeper.call,
            WakeAt: self._schedule_wake,
            Stopped: self._left,
            StopFollowing: self.peers.stop_following,
            HighWatermarkAdvanced: self._watermark_advanced,
        }

    # ------------------------------------------------------------ inputs

    def now(self) -> int:
        """Milliseconds on the monotonic clock of all deadlines of the core."""
        return int(self._loop.time() * 1000)

    def time_ms(self) -> int:
        """The wall clock, for comparison with timestamps of records."""
        return int(time.time() * 1000) + self.settings.tidelog_clock_offset_ms

    def ask(self, waiter: Waiter, message: Message) -> None:
        """Pass a request to the core. The answer is delivered when effects are next executed."""
        self.core.receive(waiter, message, int(self._loop.time() * 1000))

    def answered(self, peer: BrokerId, message: Message) -> None:
        """Pass an answer of another broker to the core."""
        try:
            self.core.receive(peer, message, self.now())
        except Exception as error:
            self.unexpected(error)

    def command_answered(self, peer: BrokerId, message: Message) -> None:
        """The same for rare answers, other than fetches, whose type is checked."""
        if isinstance(message, CreateTopicResponse):
            self._wanted_topics.answered(message)
        else:
            self.answered(peer, message)

    def connected(self, peer: BrokerId) -> None:
        try:
            self.core.connected(peer)
        except Exception as error:
            self.unexpected(error)
        self.settle()

    def unreachable(self, peer: BrokerId) -> None:
        """There is no connection to a peer. A stopping broker does not wait for an unreachable controller."""
        if self.leaving and peer == self.core.known_controller:
            self.answered(peer, ControlledShutdownResponse(error=ErrorCode.NETWORK_EXCEPTION))
            self.settle()

    def keeper_notice(self, notice: KeeperNotice) -> None:
        if isinstance(notice, SessionStarted):
            if self._session:
                self.observe(happened.KeeperSessionLost(self._session, "it expired"))
            self._session = notice.session
            self.observe(happened.KeeperSessionStarted(notice.session))
        elif isinstance(notice, SessionResumed):
            self.observe(happened.KeeperReconnected(self._session))
        try:
            self.core.keeper_notice(notice, self.now())
        except Exception as error:
            self.unexpected(error)
        self.settle()

    def stop(self, reason: str) -> None:
        """Begin the shutdown: ``stopped`` is set when leadership has moved, or when it cannot be moved."""
        self._leave_because(reason)
        if self.core.controller.active and not self.keeper.connected:
            self.core.leave()  # this broker is the controller and cannot write to the keeper
        else:
            self.core.stop(self.now())
        self.settle()

    def _leave_because(self, reason: str) -> None:
        self.observe(happened.ControlledShutdownBegun(reason))
        self.leaving = True
        self._leaving_since = self.now()

    def fail(self, reason: str) -> None:
        """Stop at once after an error that only a restart can repair."""
        if not self.failure:
            self.failure = reason
            self.log.critical("stopping: %s", reason)
            self.stopped.set()

    def close(self) -> None:
        self.peers.close()
        self.throttles.follower.close()
        self.groups.close()
        self.observe(happened.ProcessStopped(self.failure or "asked to"))
        self.narration.tell(all_of_it=True)
        if self.recorder is not None:
            self.recorder.close()

    def _wake(self) -> None:
        self._wake_at = None
        try:
            self.core.wake(self.now())
        except Exception as error:
            self.unexpected(error)
        self.settle()

    def unexpected(self, error: Exception) -> None:
        """Handle an exception that should not happen."""
        if isinstance(error, InvariantViolation):
            self.fail(f"replication reached a state that its rules exclude: {error}")
        else:
            self.metrics.unexpected_errors += 1
            self.log.error("unexpected error, continuing", exc_info=error)

    def when_settled(self, action: Callable[[], None]) -> None:
        """Run ``action`` after the current effects are executed: it may send more requests to the core."""
        self._ready.append(action)

    # ------------------------------------------------------------ effects

    def settle(self) -> None:
        effects, server = self.core.effects, self.server
        if effects:
            self.carry_out()
        if server.starting and self.core.metadata.live_brokers:
            self.informed.set()
            server.open()
            self.core.keep_producer_ids()
            self.carry_out()
        while self._ready:
            actions, self._ready = self._ready, []
            for action in actions:
                action()
            if effects:
                self.carry_out()
        if self.peers.due:
            self.peers.flush(waiting=bool(self._held))
        if server.unflushed:
            server.flush()

    def carry_out(self) -> None:
        effects = self.core.effects
        while effects:
            batch = effects[:]
            effects.clear()
            if self._held or self.storage.dirty():
                self._held += [effect for effect in batch if not self._overtakes(effect)]
                self._sync()
            else:
                self._perform(batch)

    def _perform(self, effects: list[Any]) -> None:
        carriers = self._carriers
        for effect in effects:
            kind = type(effect)
            try:
                if kind is Reply:
                    effect.to.deliver(effect.message)
                else:
                    carriers.get(kind, self.observe)(effect)
            except Exception as error:
                # It must not drop the effects behind it, nor the connection that brought the input: they
                # belong to other clients.
                self.unexpected(error)

    def _send(self, send: Send) -> None:
        if send.to == self.id:
            self.core.receive(self._local, send.message, self.now())
            if isinstance(send.message, UpdateMetadataRequest):  # of the controller, which is this broker
                self.peers.connections_changed()
        else:
            self.peers.send(send.to, send.message)

    def _left(self, _effect: Stopped) -> None:
        leading = sum(map(self.leads, self.core.replicas))
        self.observe(happened.ControlledShutdownFinished(leading, self.now() - self._leaving_since))
        self.stopped.set()

    def stop_following(self, leader: BrokerId, tp: TopicPartition) -> None:
        """A follower gives up its leader. Executed in order with the effects of the core."""
        effects: list[Any] = self.core.effects
        effects.append(StopFollowing(leader, tp))

    def _schedule_wake(self, wake: WakeAt) -> None:
        at = wake.at / 1000
        if self._wake_at is not None:
            if self._wake_at.when() <= at:
                return
            self._wake_at.cancel()
        self._wake_at = self._loop.call_at(at, self._wake)

    def _watermark_advanced(self, event: HighWatermarkAdvanced) -> None:
        """``observe`` for the most frequent event, which nothing else needs."""
        self.metrics.watermark_advanced(event)
        if self.recorder is not None:
            self.recorder.record(event, self.now())

    def observe(self, event: Any) -> None:
        """Count, record and log an event."""
        self.metrics.observe(event)
        self.narration.observe(event)
        if self.recorder is not None:
            self.recorder.record(event, self.now())
        if isinstance(event, CHANGES_OF_LEADERSHIP):
            self.groups.observe(event)
        elif isinstance(event, TopicConfigured):
            self.topics.configure(event.topic, event.values)
            self.throttles.configure_topic(event.topic, self.topics.of(event.topic))
        elif isinstance(event, BrokerRegistered):
            self.registered.set()
        elif isinstance(event, BrokerExited):
            self.failure = "log truncation is not allowed"
            self._leave_because(self.failure)

    def obey_settings(self, own: Mapping[str, str], of_every_broker: Mapping[str, str]) -> None:
        """The settings that are changed at run time have changed."""
        self.running_settings.configure(own, of_every_broker)
        self.throttles.set_rates(self.running_settings.values)
        texts = [f"{name}={text}" for name, text in self.running_settings.values.chosen().items()]
        self.log.info("settings of the running broker: %s", ", ".join(texts) or "none")

    def recovered(self, found: Recovered) -> None:
        """Observe what recovery found in a log."""
        missing = sum(missing.end - missing.first for missing in found.missing)
        self.observe(
            happened.LogRecovered(
                found.tp, found.log_end_offset, found.truncated_bytes, missing, found.finding
            )
        )

    def report(self) -> None:
        """Flush the recorder and the pending lines of the log."""
        if self.recorder is not None:
            self.recorder.flush()
        machines = self.core.controller.machines
        self.narration.live_brokers(None if machines is None else machines.cluster.live)
        self.narration.tell()

    # ------------------------------------------------------------ flush=always

    def _overtakes(self, effect: Any) -> bool:
        """Whether a read need not wait for the sync. Its answer is sent here at once, with synced records
        only."""
        if not isinstance(effect, Reply) or not isinstance(effect.message, FetchResponse):
            return False
        response = effect.message
        replica = self.core.replicas.get(response.tp)
        if replica is None or not response.batches:
            return False
        log = cast(FileLog, replica.log)
        if log.config.flush is Flush.ALWAYS:
            durable = log.recovery_point
            batches = [batch for batch in response.batches if batch.next_offset <= durable]
            if not batches:
                return False
            committed = min(response.high_watermark, durable)
            response = replace(response, batches=batches, high_watermark=committed)
        self._perform([Reply(effect.to, response)])
        return True

    def _sync(self) -> None:
        if self._syncing:
            return
        self._syncing = True
        count = len(self._held)
        sync = self.storage.begin_sync()
        self._loop.run_in_executor(self.threads, sync).add_done_callback(
            lambda done: self._synced(count, done.exception())
        )

    def _synced(self, count: int, error: BaseException | None) -> None:
        if error is not None:
            # After a failed fsync the content of the disk is unknown (the kernel may have dropped the pages),
            # so the broker must not acknowledge: stop, and recover from the other replicas. Until then this
            # sync counts as under way, so that no later one releases the held effects.
            self.fail(f"cannot make the log durable: {error}")
            return
        self._syncing = False
        durable, self._held = self._held[:count], self._held[count:]
        self._perform(durable)
        if self._held:
            self._sync()
        self.settle()

    # ------------------------------------------------------------ for handlers

    def leads(self, tp: TopicPartition) -> bool:
        replica = self.core.replicas.get(tp)
        return replica is not None and isinstance(replica.role, LeaderRole)

    def has_in_sync(self, tp: TopicPartition, follower: BrokerId) -> bool:
        """Whether this broker leads the partition, and that follower is in sync."""
        replica = self.core.replicas.get(tp)
        return replica is not None and isinstance(replica.role, LeaderRole) and follower in replica.role.isr

    def create_topic(self, name: str) -> ErrorCode:
        """Ask the controller to create a topic that a client wants. Returns the error for the client: to ask
        again, or why the controller refused the last time."""
        settings = self.settings
        if name == OFFSETS_TOPIC:
            request = topic_request(settings)
        else:
            request = CreateTopicRequest(
                topic=name,
                partitions=settings.num_partitions,
                replication_factor=settings.default_replication_factor,
            )
        return self._wanted_topics.want(request, self.now())

    def _send_to_controller(self, request: CreateTopicRequest) -> bool:
        controller = self.core.known_controller
        if controller != NO_LEADER:
            self.core.effects.append(Send(controller, request))
        return controller != NO_LEADER

    def described_settings(self) -> list[Described]:
        return BROKER.describe((ConfigSource.BROKER, self.settings.chosen()))


class _Local:
    """This broker as its own peer: the controller also controls its own broker."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    def deliver(self, message: Any) -> None:
        self._node.command_answered(self._node.id, message)
