"""The controller: one broker, elected through the keeper, that keeps every partition led (M7).

Every broker runs this object; it is *active* on the one that owns the ephemeral ``/controller`` node. An
election is one atomic multi (create the node, raise ``/controller_epoch``), and the version of that epoch
fences every later write. A controller that is cut off from the keeper does not know that it was deposed:
it goes on believing, and is refused by everybody it tells.

All work runs as tasks, one after the other, in the order of Kafka's controller event thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidelog.core import elections, events, paths
from tidelog.core.channels import ControlChannels
from tidelog.core.cluster import Cluster, PartitionPhase
from tidelog.core.context import Context
from tidelog.core.coordination import Children, Create, Delete, Get, Multi, Node, SetValue, Subtree
from tidelog.core.effects import ReplyTo
from tidelog.core.machines import StateMachines
from tidelog.core.messages import (
    AlterIsrRequest,
    AlterIsrResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    VoteResponse,
)
from tidelog.core.tasks import KeeperClient, Task, TaskQueue
from tidelog.core.types import BrokerId, PartitionState, TopicPartition
from tidelog.wire.errors import ErrorCode


class Controller:
    __slots__ = (
        "_ctx",
        "_epoch",
        "_on_registered",
        "_registered",
        "_registration",
        "_session",
        "_tasks",
        "machines",
    )

    def __init__(
        self, ctx: Context, keeper: KeeperClient, registration: Any, on_registered: Callable[[], None]
    ) -> None:
        self._ctx = ctx
        self._on_registered = on_registered
        self._registration = registration
        self._tasks = TaskQueue(keeper, self._deposed)
        self._session = 0
        self._registered = False
        self._epoch = -1
        self.machines: StateMachines | None = None
        """None while this broker is not the controller, as far as it knows."""

    @property
    def active(self) -> bool:
        return self.machines is not None

    @property
    def epoch(self) -> int:
        return self._epoch

    # ------------------------------------------------------------ session, registration, election

    def session_started(self, session: int) -> None:
        """First start, or the previous session expired and took our nodes with it."""
        self._tasks.cancel()
        self._resign("its keeper session expired")
        self._session = session
        self._registered = False
        self._tasks.submit(self._register)

    def _register(self) -> Task:
        path = paths.broker_path(self._ctx.broker)
        while True:
            result = yield Create(path, self._registration, ephemeral=True)
            if result.ok:
                stat = result.value
                break
            found = yield Get(path, watch=True)
            if found.ok and found.value.stat.owner == self._session:
                stat = found.value.stat  # a repeated call found what it had made itself
                break
            if found.ok:
                return  # the node of our former life; the watch tells when it is gone
        self._registered = True
        self._ctx.broker_epoch = stat.created
        self._ctx.emit(events.BrokerRegistered(self._ctx.broker, stat.created))
        self._on_registered()
        yield from self._elect()

    def _elect(self) -> Task:
        found = yield Get(paths.CONTROLLER, watch=True)
        if found.ok:
            if found.value.stat.owner != self._session or found.value.value != self._ctx.broker:
                self._resign(f"{found.value.value} is the controller")
            return
        current = yield Get(paths.CONTROLLER_EPOCH)
        if not current.ok:
            yield Create(paths.CONTROLLER_EPOCH, 0)
            current = yield Get(paths.CONTROLLER_EPOCH)
        node: Node = current.value
        claim = yield Multi(
            (
                Create(paths.CONTROLLER, self._ctx.broker, ephemeral=True),
                SetValue(paths.CONTROLLER_EPOCH, node.value + 1, node.stat.version),
            )
        )
        if not claim.ok:
            # Lost the race, or a repeated call found the node it had made itself.
            winner = yield Get(paths.CONTROLLER)
            if not winner.ok or winner.value.stat.owner != self._session:
                return
        self._epoch = node.value + 1
        yield from self._take_over(node.stat.version + 1)

    def _take_over(self, epoch_version: int) -> Task:
        """Kafka's onControllerFailover: read everything, tell everybody, then replicas before partitions."""
        ctx = self._ctx
        ctx.emit(events.ControllerElected(ctx.broker, self._epoch))
        cluster = Cluster()
        channels = ControlChannels(ctx, self._epoch)
        self.machines = machines = StateMachines(ctx, cluster, channels, epoch_version)
        brokers = yield Children(paths.BROKERS, watch=True)
        yield from self._drain_isr_notifications(update=False)
        for path, node in brokers.nodes.items():
            cluster.live[paths.broker_of(path)] = node.stat.created
            channels.open(paths.broker_of(path), node)
        yield from self._load_topics()
        for broker in cluster.live:
            channels.update_metadata(broker, cluster.known_partitions())
        offline = []
        for tp, assignment in cluster.assignments.items():
            cluster.partitions[tp] = PartitionPhase.NEW if tp not in cluster.states else PartitionPhase.ONLINE
            offline += [(tp, broker) for broker in assignment if broker not in cluster.live]
        for broker in cluster.live:
            machines.replicas_online(broker)
        machines.batch.send()
        yield from machines.replicas_offline(offline)
        self._mark_leaderless()
        yield from machines.elect_offline_partitions()

    def _load_topics(self) -> Task:
        """Learn assignments and states. Topics that are known already keep what is cached of them."""
        assert self.machines is not None
        cluster = self.machines.cluster
        tree = yield Subtree(paths.TOPICS, watch=True)
        for path, node in tree.nodes.items():
            parts = path[len(paths.TOPICS) + 1 :].split("/")
            if len(parts) == 1:
                for partition, replicas in node.value.items():
                    cluster.assignments.setdefault(TopicPartition(parts[0], partition), replicas)
            elif parts[-1] == "state":
                tp = TopicPartition(parts[0], int(parts[2]))
                if tp not in cluster.states:
                    cluster.states[tp] = replace(node.value, version=node.stat.version)

    def _deposed(self) -> None:
        self._resign("the keeper refused its write")

    def _resign(self, reason: str) -> None:
        if self.machines is not None:
            self.machines = None
            self._ctx.emit(events.ControllerResigned(self._ctx.broker, self._epoch, reason))

    # ------------------------------------------------------------ what the keeper tells

    def watch_fired(self, path: str) -> None:
        if path == paths.CONTROLLER:
            if self._registered:
                self._tasks.submit(self._elect)
        elif path == paths.broker_path(self._ctx.broker):
            if not self._registered:
                self._tasks.submit(self._register)
        elif self.active:
            if path == paths.BROKERS:
                self._tasks.submit(self._brokers_changed)
            elif path == paths.TOPICS:
                self._tasks.submit(self._topics_changed)
            elif path == paths.ISR_NOTIFICATIONS:
                self._tasks.submit(self._isr_notified)

    def _brokers_changed(self) -> Task:
        if self.machines is None:
            return
        cluster = self.machines.cluster
        result = yield Children(paths.BROKERS, watch=True)
        now_live = {paths.broker_of(path): node for path, node in result.nodes.items()}
        epochs = {broker: node.stat.created for broker, node in now_live.items()}
        gone = [b for b in cluster.live if epochs.get(b) != cluster.live[b]]
        come = [b for b in epochs if cluster.live.get(b) != epochs[b]]  # a bounced broker is in both
        if gone:
            yield from self._brokers_failed(gone)
        if come:
            yield from self._brokers_started({broker: now_live[broker] for broker in come})

    def _brokers_failed(self, dead: list[BrokerId]) -> Task:
        """Partitions first (elect), replicas second (shrink what is left)."""
        machines = self.machines
        assert machines is not None
        cluster = machines.cluster
        replicas = []
        for broker in dead:
            del cluster.live[broker]
            cluster.leaving.discard(broker)
            machines.channels.close(broker)
            machines.ballots.withdraw(broker)
            replicas += [(tp, broker) for tp in cluster.replicas_on(broker)]
        if not self._mark_leaderless():
            for broker in cluster.live:
                machines.channels.update_metadata(broker, ())
        yield from machines.elect_offline_partitions()
        yield from machines.replicas_offline(replicas)

    def _mark_leaderless(self) -> bool:
        assert self.machines is not None
        cluster = self.machines.cluster
        leaderless = [tp for tp in cluster.states if not cluster.has_live_leader(tp)]
        for tp in leaderless:
            cluster.partitions[tp] = PartitionPhase.OFFLINE
        return bool(leaderless)

    def _brokers_started(self, started: dict[BrokerId, Node]) -> Task:
        machines = self.machines
        assert machines is not None
        cluster = machines.cluster
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

    def _topics_changed(self) -> Task:
        if self.machines is None:
            return
        yield from self._load_topics()
        cluster = self.machines.cluster
        yield from self.machines.create_partitions(
            [tp for tp in cluster.assignments if tp not in cluster.partitions]
        )

    # ------------------------------------------------------------ ISR changes

    def _isr_notified(self) -> Task:
        if self.machines is not None:
            yield from self._drain_isr_notifications(update=True)

    def _drain_isr_notifications(self, *, update: bool) -> Task:
        """Leaders of older generations write their ISR themselves and leave a note here."""
        machines = self.machines
        assert machines is not None
        if self._ctx.generation.isr_through_controller:
            return
        notes = yield Children(paths.ISR_NOTIFICATIONS, watch=True)
        for path, node in notes.nodes.items():
            if update and node.value in machines.cluster.states:
                yield from machines.read_state(node.value)
                machines.batch.add(machines.cluster.partition(node.value), ())
            yield Delete(path)
        machines.batch.send()

    def alter_isr(self, request: AlterIsrRequest, reply_to: ReplyTo) -> None:
        self._tasks.submit(lambda: self._alter_isr(request, reply_to))

    def _alter_isr(self, request: AlterIsrRequest, reply_to: ReplyTo) -> Task:
        response = AlterIsrResponse(request.tp, ErrorCode.NONE, request.leader_epoch, request.version)
        machines = self.machines
        state = machines.cluster.states.get(request.tp) if machines is not None else None
        error = self._isr_refusal(request, state)
        if error is ErrorCode.NONE and machines is not None and state is not None:
            if request.isr != state.isr:  # else: a repeated request whose answer was lost
                version = request.version if self._ctx.guards.partition_version else state.version
                proposed = replace(state, isr=request.isr)
                yield from machines.write_state(request.tp, proposed, version, "asked by the leader")
                written = machines.cluster.states[request.tp]
                if (written.leader_epoch, written.isr) == (state.leader_epoch, request.isr):
                    # Taken now, or by an earlier try of the same write whose answer was lost.
                    machines.batch.add(machines.cluster.partition(request.tp), ())
                    machines.batch.send()
                else:
                    error = ErrorCode.INVALID_UPDATE_VERSION
            state = machines.cluster.states[request.tp]
            response.isr, response.version = state.isr, state.version
        response.error = error
        self._ctx.reply(reply_to, response)

    def _isr_refusal(self, request: AlterIsrRequest, state: PartitionState | None) -> ErrorCode:
        guards = self._ctx.guards
        if self.machines is None:
            return ErrorCode.NOT_CONTROLLER
        live = self.machines.cluster.live
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if guards.broker_epoch and live.get(request.broker) != request.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if request.leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if request.isr != state.isr and guards.partition_version and request.version != state.version:
            return ErrorCode.INVALID_UPDATE_VERSION
        if guards.incarnation_in_isr:
            for broker, epoch in zip(request.isr, request.member_epochs, strict=True):
                if broker not in state.isr and live.get(broker) != epoch:
                    return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE

    # ------------------------------------------------------------ requests of administrators and brokers

    def elect_leaders(self, request: ElectLeadersRequest, reply_to: ReplyTo) -> None:
        self._tasks.submit(lambda: self._elect_preferred(request.tp, reply_to))

    def _elect_preferred(self, tp: TopicPartition, reply_to: ReplyTo) -> Task:
        machines = self.machines
        error = ErrorCode.NONE
        if machines is None:
            error = ErrorCode.NOT_CONTROLLER
        elif tp not in machines.cluster.states:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            cluster = machines.cluster
            assignment, state = cluster.assignments[tp], cluster.states[tp]
            choice = elections.preferred_leader(assignment, state, cluster.electable())
            if state.leader == assignment[0]:
                error = ErrorCode.ELECTION_NOT_NEEDED
            elif choice is None:
                error = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            elif not self._ctx.generation.commits_by_isr:
                yield from machines.call_vote(tp)
            else:
                yield from machines.elect(
                    tp,
                    lambda state: elections.preferred_leader(assignment, state, cluster.electable()),
                    "preferred leader",
                )
                machines.batch.send()
        self._ctx.reply(reply_to, ElectLeadersResponse(tp, error))

    def unclean_election_enabled(self, topic: str) -> None:
        """The topic's configuration changed: what was offline may be electable now."""
        if self.active:
            self._tasks.submit(self._retry_elections)

    def _retry_elections(self) -> Task:
        if self.machines is not None:
            yield from self.machines.elect_offline_partitions()

    def controlled_shutdown(self, request: ControlledShutdownRequest, reply_to: ReplyTo) -> None:
        self._tasks.submit(lambda: self._controlled_shutdown(request, reply_to))

    def _controlled_shutdown(self, request: ControlledShutdownRequest, reply_to: ReplyTo) -> Task:
        """Move leadership away from a broker that is about to leave, then let its replicas go."""
        machines = self.machines
        if machines is None:
            self._ctx.reply(reply_to, ControlledShutdownResponse(ErrorCode.NOT_CONTROLLER))
            return
        cluster, leaving = machines.cluster, request.broker
        if cluster.live.get(leaving) != request.broker_epoch:
            self._ctx.reply(reply_to, ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH))
            return
        cluster.leaving.add(leaving)
        followed = []
        for tp in cluster.replicas_on(leaving):
            if tp not in cluster.states or len(cluster.assignments[tp]) == 1:
                continue
            if cluster.states[tp].leader != leaving:
                followed.append(tp)
            elif self._ctx.generation.commits_by_isr:
                yield from machines.elect(
                    tp,
                    lambda state, tp=tp: elections.shutdown_leader(  # type: ignore[misc]
                        cluster.assignments[tp], state, cluster.electable(), cluster.leaving
                    ),
                    f"{leaving} is shutting down",
                )
        machines.batch.send()
        machines.channels.stop_replica(leaving, tuple(followed), delete=False)
        yield from machines.replicas_offline([(tp, leaving) for tp in followed])
        remaining = tuple(tp for tp, state in cluster.states.items() if state.leader == leaving)
        self._ctx.reply(reply_to, ControlledShutdownResponse(ErrorCode.NONE, remaining))

    # ------------------------------------------------------------ answers of brokers

    def control_answered(self, broker: BrokerId, request_id: int) -> None:
        if self.machines is not None:
            self.machines.channels.answered(broker, request_id)

    def vote_answered(self, broker: BrokerId, vote: VoteResponse) -> None:
        machines = self.machines
        if machines is not None:
            machines.channels.answered(broker, vote.request_id)
            if machines.ballots.cast(broker, vote):
                self._tasks.submit(lambda: self._count_votes(vote.tp))

    def _count_votes(self, tp: TopicPartition) -> Task:
        if self.machines is not None:
            yield from self.machines.count_votes(tp)

    def connected(self, broker: BrokerId) -> None:
        if self.machines is not None:
            self.machines.channels.connected(broker)
