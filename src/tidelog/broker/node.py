"""Where the core meets the world: inputs go in through here, and every effect is carried out here.

The core is told about a request, a keeper's notice, a connection or the time; it appends effects to a list.
``settle`` empties that list: answers to their requests, messages to the peers, calls to the keeper, wake-ups
to the event loop, events to the recorder and the metrics. It runs once per read event, so everything that
came in together goes out together.

Durability: as long as a log with ``flush=always`` has appends that are not on the disk, *all* effects are
held back, in order, until an fsync that began after those appends has returned. Inputs go on being taken
meanwhile, so one fsync serves everything that arrived during the previous one (group commit), and an
acknowledgement can never be ahead of the disk. Only reads of what is on disk already do not wait.

Nothing that comes in may cost what comes after it. A bug is written down with its traceback and costs its own
input; a broken invariant ends the broker, because promises made from such a state are worth nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, Protocol, cast

from tidelog.broker.coordinators.coordinators import CHANGES_OF_LEADERSHIP, Coordinators, topic_request
from tidelog.broker.incident_log import Narration
from tidelog.broker.metrics.counters import Metrics
from tidelog.broker.peers.peers import Peers
from tidelog.broker.server import Server
from tidelog.broker.topic_settings import TopicSettings
from tidelog.broker.wanted_topics import WantedTopics
from tidelog.core.broker import Broker
from tidelog.core.effects import KeeperCall, Reply, Send, Stopped, WakeAt
from tidelog.core.events import BrokerRegistered, TopicConfigured
from tidelog.core.keeper_port import KeeperReply, SessionResumed, SessionStarted, WatchFired
from tidelog.core.messages import (
    ControlledShutdownResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    FetchResponse,
    Message,
)
from tidelog.core.replication.leader import LeaderRole
from tidelog.core.types import NO_LEADER, BrokerEndpoint, BrokerId, InvariantViolation, TopicPartition
from tidelog.evidence import process_events as happened
from tidelog.evidence.journals.recorder import EventRecorder
from tidelog.groups.records import TOPIC as OFFSETS_TOPIC
from tidelog.keeper.client import KeeperConnection
from tidelog.settings.broker import BROKER, Flush, Settings
from tidelog.settings.table import Described, Source
from tidelog.settings.topic import topic_defaults
from tidelog.storage.file_storage import FileStorage
from tidelog.storage.log.file_log import FileLog
from tidelog.wire.errors import ErrorCode

KeeperNotice = KeeperReply | WatchFired | SessionStarted | SessionResumed


class Waiter(Protocol):
    """Whoever sent the core a request: it gets the answer."""

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
        self.registered = asyncio.Event()
        self.informed = asyncio.Event()
        """A controller has told us who is there and who leads what."""
        self.stopped = asyncio.Event()
        self.log = logging.getLogger("tidelog.node")
        self.leaving = False
        self.failure = ""
        """Why the process ends without having been asked to."""
        self._wanted_topics = WantedTopics(self._send_to_controller)
        self._leaving_since = 0
        self.cluster_id = ""
        # Made once the port is bound: the core registers where we are, the server hands us what comes in.
        self.core: Broker
        self.server: Server
        self.endpoint: BrokerEndpoint
        self.peers = Peers(self)
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
            Reply: self._reply,
            Send: self._send,
            KeeperCall: keeper.call,
            WakeAt: self._schedule_wake,
            Stopped: self._left,
        }

    # ------------------------------------------------------------ inputs

    def now(self) -> int:
        """Milliseconds on the clock that drives every deadline of the core: monotonic, not of the day."""
        return int(self._loop.time() * 1000)

    def time_ms(self) -> int:
        """The time of day, for whatever compares itself with the timestamps of records."""
        return int(time.time() * 1000) + self.settings.tidelog_clock_offset_ms

    def ask(self, waiter: Waiter, message: Message) -> None:
        """Hand the core a request. The answer is delivered when effects are next carried out."""
        self.core.receive(waiter, message, self.now())

    def answered(self, peer: BrokerId, message: Message) -> None:
        """Hand the core the answer of another broker."""
        try:
            self.core.receive(peer, message, self.now())
        except Exception as error:
            self.unexpected(error)

    def command_answered(self, peer: BrokerId, message: Message) -> None:
        """The same for what is no fetch, and so rare enough to be looked at."""
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
        """There is no connection to a peer. A broker that leaves does not wait for such a controller."""
        if self.leaving and peer == self.core.known_controller:
            self.answered(peer, ControlledShutdownResponse(ErrorCode.NETWORK_EXCEPTION))
            self.settle()

    def keeper_says(self, notice: KeeperNotice) -> None:
        if isinstance(notice, SessionStarted):
            if self._session:
                self.observe(happened.KeeperSessionLost(self._session, "it expired"))
            self._session = notice.session
            self.observe(happened.KeeperSessionStarted(notice.session))
        elif isinstance(notice, SessionResumed):
            self.observe(happened.KeeperReconnected(self._session))
        try:
            self.core.keeper_says(notice, self.now())
        except Exception as error:
            self.unexpected(error)
        self.settle()

    def stop(self, reason: str) -> None:
        """Begin to leave: ``stopped`` is set when leadership has moved, or when waiting is no use."""
        self.observe(happened.ControlledShutdownBegun(reason))
        self.leaving = True
        self._leaving_since = self.now()
        if self.core.controller.active and not self.keeper.connected:
            self.core.leave()  # what we should ask of ourselves we could not do
        else:
            self.core.stop(self.now())
        self.settle()

    def fail(self, reason: str) -> None:
        """Something is broken that only a new start can mend: leave at once, and say why."""
        if not self.failure:
            self.failure = reason
            self.log.critical("stopping: %s", reason)
            self.stopped.set()

    def close(self) -> None:
        self.peers.close()
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
        """Something failed that should not have been able to."""
        if isinstance(error, InvariantViolation):
            self.fail(f"replication reached a state that its rules exclude: {error}")
        else:
            self.metrics.unexpected_errors += 1
            self.log.error("unexpected error, going on", exc_info=error)

    def when_settled(self, action: Callable[[], None]) -> None:
        """Run ``action`` once the effects at hand are carried out: it may ask the core for more."""
        self._ready.append(action)

    # ------------------------------------------------------------ effects

    def settle(self) -> None:
        self.carry_out()
        if self.server.starting and self.core.metadata.live_brokers:
            self.informed.set()
            self.server.open()
            self.core.keep_producer_ids()
            self.carry_out()
        while self._ready:
            actions, self._ready = self._ready, []
            for action in actions:
                action()
            self.carry_out()
        self.peers.flush()
        self.server.flush()

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
            carrier = carriers.get(type(effect), self.observe)
            try:
                carrier(effect)
            except Exception as error:
                # It must not cost the effects behind it, nor the connection that happened to bring the
                # input: they belong to others.
                self.unexpected(error)

    def _reply(self, reply: Reply) -> None:
        reply.to.deliver(reply.message)  # type: ignore[attr-defined]  # the world's own tokens: Waiters

    def _send(self, send: Send) -> None:
        if send.to == self.id:
            self.core.receive(self._local, send.message, self.now())
        else:
            self.peers.send(send.to, send.message)

    def _left(self, _effect: Stopped) -> None:
        leading = sum(map(self.leads, self.core.replicas))
        self.observe(happened.ControlledShutdownFinished(leading, self.now() - self._leaving_since))
        self.stopped.set()

    def _schedule_wake(self, wake: WakeAt) -> None:
        at = wake.at / 1000
        if self._wake_at is not None:
            if self._wake_at.when() <= at:
                return
            self._wake_at.cancel()
        self._wake_at = self._loop.call_at(at, self._wake)

    def observe(self, event: Any) -> None:
        """Something happened: count it, write it down, tell it."""
        self.metrics.observe(event)
        self.narration.observe(event)
        if self.recorder is not None:
            self.recorder.record(event, self.now())
        if isinstance(event, CHANGES_OF_LEADERSHIP):
            self.groups.observe(event)
        elif isinstance(event, TopicConfigured):
            self.topics.configure(event.topic, event.values)
        elif isinstance(event, BrokerRegistered):
            self.registered.set()

    def report(self) -> None:
        """Write and tell what had been waiting for more of its kind."""
        if self.recorder is not None:
            self.recorder.flush()
        machines = self.core.controller.machines
        self.narration.live_brokers(None if machines is None else machines.cluster.live)
        self.narration.tell()

    # ------------------------------------------------------------ flush=always

    def _overtakes(self, effect: Any) -> bool:
        """Reads of what is on disk need not wait for what is not: such an answer leaves at once, here, and
        tells nothing of the rest."""
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
            # After a failed fsync nobody knows what is on the disk (the kernel may have dropped the pages).
            # Acknowledging would be a lie and so would be going on: stop, and recover from the others.
            # Until then this sync counts as under way, so that no later one releases what is held.
            self.fail(f"cannot make the log durable: {error}")
            return
        self._syncing = False
        durable, self._held = self._held[:count], self._held[count:]
        self._perform(durable)
        if self._held:
            self._sync()
        self.settle()

    # ------------------------------------------------------------ what the handlers ask

    def leads(self, tp: TopicPartition) -> bool:
        replica = self.core.replicas.get(tp)
        return replica is not None and isinstance(replica.role, LeaderRole)

    def create_topic(self, name: str) -> ErrorCode:
        """A client asked for a topic that does not exist: have the controller create it. Returns what to tell
        the client: to ask again, or why the controller refused the last time."""
        settings = self.settings
        if name == OFFSETS_TOPIC:
            request = topic_request(settings)
        else:
            request = CreateTopicRequest(name, settings.num_partitions, settings.default_replication_factor)
        return self._wanted_topics.want(request, self.now())

    def _send_to_controller(self, request: CreateTopicRequest) -> bool:
        controller = self.core.known_controller
        if controller != NO_LEADER:
            self.core.effects.append(Send(controller, request))
        return controller != NO_LEADER

    def described_settings(self) -> list[Described]:
        return BROKER.describe((Source.BROKER, self.settings.chosen()))


class _Local:
    """This broker as its own peer: the controller controls the broker it lives in, too."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    def deliver(self, message: Any) -> None:
        self._node.command_answered(self._node.id, message)
