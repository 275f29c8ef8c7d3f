"""The controller: one broker, elected through the keeper, that elects the leaders of all partitions.

Every broker runs this object; it is *active* on the one that owns the ephemeral ``/controller`` node. An
election is one atomic multi (create the node, raise ``/controller_epoch``), and the version of that epoch
fences every later write. A controller that is disconnected from the keeper does not know that it was deposed:
it continues, and all brokers refuse its requests.

All work runs as tasks, one after the other, in the order of Kafka's controller event thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from tidelog.core import events, keeper_paths
from tidelog.core.context import Context
from tidelog.core.controller import isr_changes, reassignment, topic_creation, topic_deletion
from tidelog.core.controller.broker_channels import ControlChannels
from tidelog.core.controller.cluster_state import ClusterState
from tidelog.core.controller.failed_replicas import FailedReplicas
from tidelog.core.controller.partition_changes import EligibleLeaderMachines
from tidelog.core.controller.requests import ControllerRequests
from tidelog.core.controller.state_machines import StateMachines
from tidelog.core.effects import ReplyTo
from tidelog.core.keeper_port import Children, Create, Delete, Get, Multi, Result, SetValue, StoredNode
from tidelog.core.keeper_tasks import KeeperClient, Task, TaskQueue, Together
from tidelog.core.log_port import Storage
from tidelog.core.machine_phases import PartitionPhase
from tidelog.core.messages import ControlResponse, Message, VoteResponse
from tidelog.core.reasons import ResignReason
from tidelog.core.topic_configs import TopicConfigs
from tidelog.core.types import (
    NO_CONTROLLER_EPOCH,
    BrokerEndpoint,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Millis,
    TopicPartition,
)
from tidelog.wire.errors import ErrorCode

NO_ADDRESS = BrokerEndpoint("", 0)
"""Of a simulated broker: it is reached by its number."""


class Controller:
    __slots__ = (
        "_configs",
        "_ctx",
        "_epoch",
        "_failed",
        "_keeper",
        "_on_registered",
        "_registered",
        "_registration",
        "_requests",
        "_session",
        "_storage",
        "_tasks",
        "_watched",
        "machines",
    )

    def __init__(
        self,
        ctx: Context,
        keeper: KeeperClient,
        registration: BrokerEndpoint | None,
        storage: Storage,
        configs: TopicConfigs,
        *,
        on_registered: Callable[[], None],
    ) -> None:
        self._ctx = ctx
        self._storage = storage
        self._configs = configs
        self._on_registered = on_registered
        self._registration = registration
        self._keeper = keeper
        self._tasks = TaskQueue(keeper, self._deposed)
        self._requests = ControllerRequests(self, ctx, self._tasks)
        self._watched: set[str] = set()
        """Topics whose assignment is watched. Never iterated."""
        self._session = 0
        self._registered = False
        self._epoch = NO_CONTROLLER_EPOCH
        self._failed: FailedReplicas | None = None
        self.machines: StateMachines | None = None
        """None while this broker does not consider itself the controller."""

    @property
    def active(self) -> bool:
        return self.machines is not None

    @property
    def epoch(self) -> int:
        return self._epoch

    # ------------------------------------------------------------ session, registration, election

    def session_started(self, session: int) -> None:
        """First start, or the previous session expired with its ephemeral nodes."""
        self._tasks.cancel()
        self._resign(ResignReason.SESSION_EXPIRED)
        self._session = session
        self._registered = False
        self._watched = set()
        self._tasks.submit(self._register)

    def _register(self) -> Task:
        if self._registered:
            return  # a watch on the node of the old session, fired after this broker removed it itself
        path = keeper_paths.broker_path(self._ctx.broker)
        while True:
            result = yield Create(path, self._to_register(), ephemeral=True)
            if result.ok:
                stat = result.value
                break
            found = yield Get(path, watch=True)
            if found.ok and found.value.stat.owner == self._session:
                stat = found.value.stat  # a repeated call found what it had made itself
                break
            if found.ok and self._may_replace(found.value.value):
                # It names the address that this process has bound: its writer is dead, so do not wait for its
                # session to expire.
                yield Delete(path, found.value.stat.version)
            elif found.ok:
                return  # the node of the old session; the watch fires when it is deleted
        self._registered = True
        self._ctx.broker_epoch = self._storage.broker_epoch = BrokerEpoch(stat.created)
        self._ctx.emit(events.BrokerRegistered(self._ctx.broker, self._ctx.broker_epoch))
        self._on_registered()
        yield from self._elect()

    def _may_replace(self, registered: BrokerEndpoint | None) -> bool:
        if self._registration is None or self._ctx.generation.is_started_again:
            return False
        return self._registration.is_at(registered)

    def _start_again(self, _now: Millis) -> None:
        if not self._registered:
            self._tasks.submit(self._register)

    def _to_register(self) -> BrokerEndpoint | None:
        if not self._ctx.generation.tracks_eligible_leaders:
            return self._registration
        return replace(self._registration or NO_ADDRESS, previous_epoch=self._storage.broker_epoch)

    def _elect(self) -> Task:
        found = yield Get(keeper_paths.CONTROLLER, watch=True)
        if found.ok:
            if found.value.stat.owner != self._session or found.value.value != self._ctx.broker:
                self._resign(ResignReason.SUCCEEDED, found.value.value)
            return
        self._resign(ResignReason.NODE_DELETED)  # if this broker was the controller
        current = yield Get(keeper_paths.CONTROLLER_EPOCH)
        if not current.ok:
            yield Create(keeper_paths.CONTROLLER_EPOCH, 0)
            current = yield Get(keeper_paths.CONTROLLER_EPOCH)
        node: StoredNode = current.value
        claim = yield Multi(
            (
                Create(keeper_paths.CONTROLLER, self._ctx.broker, ephemeral=True),
                SetValue(keeper_paths.CONTROLLER_EPOCH, node.value + 1, node.stat.version),
            )
        )
        if not claim.ok:
            # Lost the race, or a repeated call found the node it had made itself.
            winner = yield Get(keeper_paths.CONTROLLER)
            if not winner.ok or winner.value.stat.owner != self._session:
                return
        self._epoch = ControllerEpoch(node.value + 1)
        yield from self._take_over(node.stat.version + 1)

    def _take_over(self, epoch_version: int) -> Task:
        """Kafka's onControllerFailover: read everything, inform all brokers, then replicas before
        partitions."""
        ctx, generation = self._ctx, self._ctx.generation
        ctx.emit(events.ControllerElected(ctx.broker, self._epoch))
        cluster = ClusterState()
        channels = ControlChannels(ctx, self._epoch)
        kind = EligibleLeaderMachines if ctx.generation.tracks_eligible_leaders else StateMachines
        self.machines = machines = kind(ctx, cluster, channels, epoch_version, self._submit)
        self._failed = FailedReplicas(machines)
        found = yield Together(
            (
                Children(keeper_paths.BROKERS, watch=True),
                Children(keeper_paths.DELETE_TOPICS, watch=True, values=False),
            )
        )
        brokers, marks = found.value
        yield from isr_changes.drain_isr_notifications(machines, update=False)
        for path, node in brokers.nodes.items():
            cluster.live[keeper_paths.broker_of(path)] = BrokerEpoch(node.stat.created)
            channels.open(keeper_paths.broker_of(path), node)
        yield from topic_creation.load_topics(machines)
        yield from topic_deletion.adopt_marks(machines, [keeper_paths.name_of(path) for path in marks.nodes])
        registered = {keeper_paths.broker_of(path): node for path, node in brokers.nodes.items()}
        machines.phases.load()
        if ctx.generation.tracks_eligible_leaders:
            # Who is eligible depends on min.insync.replicas. A wrong one would make unsafe leaders eligible.
            self._configs.take_all((yield Children(keeper_paths.TOPIC_CONFIGS)), cluster.topics)
        yield from machines.registered(registered, complete=True)
        for topic in cluster.topics:
            self._watch_topic(topic)
        if generation.informs_before_roles:
            for broker in cluster.live:
                channels.update_metadata(broker, cluster.known_partitions())
        else:
            for partition in cluster.known_partitions():
                machines.batch.add(partition, ())
        offline = []
        for tp, assignment in cluster.assignments.items():
            offline += [(tp, broker) for broker in assignment if broker not in cluster.live]
        for broker in cluster.live:
            machines.replicas_online(broker)
        machines.batch.send()
        if generation.takes_dead_replicas_offline:
            yield from machines.replicas_offline(offline)
        self._mark_leaderless()
        yield from machines.elect_offline_partitions()
        if not generation.informs_before_roles:
            for broker in cluster.live:
                channels.update_metadata(broker, cluster.known_partitions())
        yield from reassignment.resume(machines)
        topic_deletion.erase_replicas(machines, cluster.deleting)

    def _deposed(self) -> None:
        self._resign(ResignReason.WRITE_REFUSED)

    def _resign(self, reason: ResignReason, successor: BrokerId | None = None) -> None:
        if self.machines is not None:
            machines, self.machines = self.machines, None
            machines.in_office = False
            machines.channels.close_all()
            self._ctx.emit(events.ControllerResigned(self._ctx.broker, self._epoch, reason, successor))

    def _submit(self, machines: StateMachines, task: Callable[[], Task]) -> None:
        self._tasks.submit(lambda: self._while_in_office(machines, task))

    def _while_in_office(self, machines: StateMachines, task: Callable[[], Task]) -> Task:
        if self.machines is machines:
            yield from task()

    # ------------------------------------------------------------ changes in the keeper

    def watch_fired(self, path: str) -> None:
        if path == keeper_paths.CONTROLLER:
            if self._registered:
                self._tasks.submit(self._elect)
        elif path == keeper_paths.broker_path(self._ctx.broker):
            if self._ctx.generation.is_started_again:
                pause = self._ctx.config.replica_fetch_backoff_ms  # as before other attempts
                self._ctx.set_timer(self._ctx.now + pause, self._start_again)
            elif not self._registered:
                self._tasks.submit(self._register)
        elif self.active:
            if path == keeper_paths.BROKERS:
                self._tasks.submit(self._brokers_changed)
            elif path == keeper_paths.TOPICS:
                self._tasks.submit(self._topics_changed)
            elif path == keeper_paths.DELETE_TOPICS:
                self._tasks.submit(self._deletion_requested)
            elif path == keeper_paths.ISR_NOTIFICATIONS:
                self._tasks.submit(self._isr_notified)
            elif (tp := keeper_paths.partition_of(path)) is not None:
                self._tasks.submit(lambda: self._isr_written(tp))
            elif path.startswith(f"{keeper_paths.TOPICS}/"):
                self._topic_changed(keeper_paths.name_of(path))

    def _brokers_changed(self) -> Task:
        if self.machines is None:
            return
        cluster = self.machines.cluster
        result = yield Children(keeper_paths.BROKERS, watch=True)
        now_live = {keeper_paths.broker_of(path): node for path, node in result.nodes.items()}
        epochs = {broker: node.stat.created for broker, node in now_live.items()}
        # In Kafka's order, that of the ids. It matters: of two brokers that die together, the second is
        # removed from the ISR last, and so may stay in it.
        dead = sorted(b for b in cluster.live if b not in epochs)
        bounced = sorted(b for b in cluster.live if epochs.get(b, cluster.live[b]) != cluster.live[b])
        new = sorted(b for b in epochs if b not in cluster.live)
        come = {broker: now_live[broker] for broker in sorted([*new, *bounced])}
        rules = self._ctx.generation
        if rules.tracks_eligible_leaders:
            yield from self._brokers_failed(sorted([*dead, *bounced]), come)
            yield from self._brokers_started(come)
            return
        if rules.forgets_dead_brokers_first:
            self._forget(dead)
        yield from self._brokers_started({broker: now_live[broker] for broker in new})
        yield from self._brokers_failed(bounced)
        yield from self._brokers_started({broker: now_live[broker] for broker in bounced})
        yield from self._brokers_failed(dead)

    def _forget(self, brokers: Iterable[BrokerId]) -> None:
        """They are not alive: they are not elected, and nothing is sent to them."""
        machines = self.machines
        assert machines is not None
        for broker in brokers:
            machines.cluster.live.pop(broker, None)
            machines.cluster.leaving.discard(broker)
            machines.channels.close(broker)
            machines.ballots.withdraw(broker)

    def _brokers_failed(self, dead: list[BrokerId], restarted: Collection[BrokerId] = ()) -> Task:
        machines = self.machines
        assert machines is not None
        if not dead:
            return
        cluster = machines.cluster
        self._forget(dead)
        replicas = [(tp, broker) for broker in dead for tp in cluster.replicas_on(broker)]
        for replica in replicas:
            cluster.failed.pop(replica, None)  # after its restart the broker reports again
        if not self._mark_leaderless():
            for broker in cluster.live:
                machines.channels.update_metadata(broker, ())
        yield from machines.brokers_failed(replicas, restarted)
        if not machines.channels.live_brokers_told:
            # No partition changed, because the replicas of the dead brokers were offline or not in sync: send
            # only the live brokers.
            for broker in cluster.live:
                machines.channels.update_metadata(broker, ())

    def _mark_leaderless(self) -> bool:
        assert self.machines is not None
        cluster = self.machines.cluster
        leaderless = [tp for tp in cluster.states if not cluster.has_live_leader(tp)]
        self.machines.phases.partitions_become(leaderless, PartitionPhase.OFFLINE)
        return bool(leaderless)

    def _brokers_started(self, started: dict[BrokerId, StoredNode]) -> Task:
        machines = self.machines
        assert machines is not None
        if not started:
            return
        cluster = machines.cluster
        yield from machines.registered(started)
        for broker, registration in started.items():
            cluster.live[broker] = registration.stat.created
            machines.channels.open(broker, registration)
        for broker in cluster.live:
            known = cluster.known_partitions() if broker in started else ()
            machines.channels.update_metadata(broker, known)
        for broker in started:
            machines.replicas_online(broker)
        machines.batch.send()
        yield from machines.elect_offline_partitions()
        yield from reassignment.resume(machines, among=started)
        topic_deletion.erase_replicas(machines, cluster.deleting, among=started)

    # ------------------------------------------------------------ topics changed by others

    def _topics_changed(self) -> Task:
        """Topics were created or deleted. Topics of this controller are online already: only their watch is
        missing."""
        machines = self.machines
        if machines is None:
            return
        cluster = machines.cluster
        listed = yield Children(keeper_paths.TOPICS, watch=True, values=False)
        names = [keeper_paths.name_of(path) for path in listed.nodes]
        found = [name for name in names if name not in cluster.topics and name not in cluster.deleting]
        yield from topic_creation.discover_topics(machines, found)
        if listed.ok:
            present = set(names)
            topic_creation.forget_topics(
                machines, [topic for topic in cluster.topics if topic not in present]
            )
        for name in names:
            if name not in self._watched:
                self._watch_topic(name)

    def _deletion_requested(self) -> Task:
        if self.machines is not None:
            yield from topic_deletion.heed_marks(self.machines)

    def _topic_changed(self, topic: str) -> None:
        """The node of a topic changed, or is gone: after a deletion by this controller it is not watched any
        more. A watch on a missing node would stay for ever, one for each name that was ever used."""
        if self.machines is not None and topic in self.machines.cluster.topics:
            self._watch_topic(topic)
        else:
            self._watched.discard(topic)

    def _watch_topic(self, topic: str) -> None:
        """Read a topic's assignment, now and whenever it changes. The read need not queue; handling its
        result must."""
        self._watched.add(topic)
        self._keeper.call(
            Get(keeper_paths.topic_path(topic), watch=True), lambda found: self._topic_read(topic, found)
        )

    def _topic_read(self, topic: str, found: Result) -> None:
        machines = self.machines
        if not found.ok:
            self._watched.discard(topic)
        elif machines is not None and len(
            (found.value.value or topic_creation.NO_PARTITIONS).partitions
        ) > len(machines.cluster.topics.get(topic, ())):
            self._tasks.submit(lambda: self._assignment_changed(topic, found))

    def _assignment_changed(self, topic: str, found: Result) -> Task:
        if self.machines is not None:
            yield from topic_creation.take_assignment(self.machines, topic, found)

    def _isr_written(self, tp: TopicPartition) -> Task:
        if self.machines is not None:
            yield from reassignment.isr_written(self.machines, tp)

    def _isr_notified(self) -> Task:
        if self.machines is not None:
            yield from isr_changes.drain_isr_notifications(self.machines, update=True)

    # ------------------------------------------------------------ requests of administrators and brokers

    def asked(self, request: Message, reply_to: ReplyTo) -> None:
        """A request that only the active controller can serve. It is always answered."""
        self._requests.asked(request, reply_to)

    def unclean_election_enabled(self, topic: str) -> None:
        """The topic's configuration changed: offline partitions may be electable now."""
        if self.active:
            self._tasks.submit(self._retry_elections)

    def min_isr_changed(self, topic: str) -> None:
        if self.active and self._ctx.generation.tracks_eligible_leaders:
            self._tasks.submit(lambda: self._clear_eligible(topic))

    def _clear_eligible(self, topic: str) -> Task:
        if isinstance(self.machines, EligibleLeaderMachines):
            yield from self.machines.min_isr_changed(topic)

    def _retry_elections(self) -> Task:
        if self.machines is not None:
            yield from self.machines.elect_offline_partitions()

    # ------------------------------------------------------------ answers from brokers

    def control_answered(self, broker: BrokerId, response: ControlResponse, now: Millis) -> None:
        machines = self.machines
        if machines is not None and self._failed is not None:
            request = machines.channels.answered(broker, response)
            self._failed.answered(broker, request, response, now)

    def vote_answered(self, broker: BrokerId, vote: VoteResponse, now: Millis) -> None:
        machines = self.machines
        if machines is not None and self._failed is not None:
            machines.channels.answered(broker, ControlResponse(request_id=vote.request_id, error=vote.error))
            if vote.error is ErrorCode.KAFKA_STORAGE_ERROR:
                self._failed.failed(broker, [vote.tp], now)
            elif machines.ballots.cast(broker, vote):
                self._tasks.submit(lambda: self._count_votes(vote.tp))

    def _count_votes(self, tp: TopicPartition) -> Task:
        if self.machines is not None:
            yield from self.machines.count_votes(tp)

    def connected(self, broker: BrokerId) -> None:
        if self.machines is not None:
            self.machines.channels.connected(broker)
