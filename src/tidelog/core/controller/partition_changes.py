"""The state machines of Kafka 4's controller: one write for each change of a partition (KIP-966).

Where 2.7 elects first and shrinks the ISR second, KRaft does both in one step: the arithmetic is in
``eligible_leaders.py``. Its events here:

* A broker is gone (KRaft fences it), shuts down, or cannot use a log: it leaves the ISR.
* A broker has registered again: if its registration does not name the epoch of its last one, which only a
  clean shutdown leaves behind, it loses its place in the ISR and among the eligible replicas. This must come
  before anything else is done with the broker. The epoch of each broker's last registration is kept in the
  keeper (``/brokers/epochs/N``), where it outlives the broker and the controller.
* A broker is there again (unfenced): partitions without a leader may get one.

Brokers that are gone or have restarted are handled one after the other, as KRaft fences them. Until its turn
a broker counts as alive: otherwise a partition would lose its leader while its ISR is not empty, and it would
have no last known leader. Nothing is sent to brokers in between. Those that have restarted come first: they
may have lost records, so they should lead only if all others are gone as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tidelog.core.assignments import Brokers
from tidelog.core.context import Context
from tidelog.core.controller import eligible_leaders
from tidelog.core.controller.broker_channels import ControlChannels
from tidelog.core.controller.cluster_state import ClusterState
from tidelog.core.controller.eligible_leaders import Circumstances
from tidelog.core.controller.kept_states import Change, Why
from tidelog.core.controller.leader_election import LeaderChoice
from tidelog.core.controller.state_machines import PARTITIONS_PER_WRITE, Election, StateMachines
from tidelog.core.events import ElectionFailed
from tidelog.core.keeper_paths import BROKER_EPOCHS, broker_epoch_path, broker_of
from tidelog.core.keeper_port import ANY_VERSION, Children, Create, KeeperError, SetValue, StoredNode
from tidelog.core.keeper_tasks import Procedure, Task
from tidelog.core.machine_phases import PartitionPhase, ReplicaPhase
from tidelog.core.reasons import ElectionFailure, ElectionKind, StateWriteReason
from tidelog.core.types import (
    NO_BROKER_EPOCH,
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Millis,
    PartitionState,
    TopicPartition,
)


class Wish(NamedTuple):
    """A change that a partition needs."""

    tp: TopicPartition
    without: BrokerId | None = None
    """The broker that leaves the ISR."""
    after_unclean_shutdown: bool = False
    unclean: bool = False
    """Allow an unclean election this time, whatever the topic's settings."""
    shutting_down: bool = False


class EligibleLeaderMachines(StateMachines):
    __slots__ = ("_began", "_check_scheduled", "_last_epochs", "_not_fenced")

    def __init__(
        self,
        ctx: Context,
        cluster: ClusterState,
        channels: ControlChannels,
        epoch_version: int,
        submit: Callable[[StateMachines, Callable[[], Task]], None],
    ) -> None:
        super().__init__(ctx, cluster, channels, epoch_version, submit)
        self._last_epochs: dict[BrokerId, BrokerEpoch] = {}
        """The epoch of each broker's last registration that was handled."""
        self._not_fenced: dict[BrokerId, None] = {}
        """Brokers that are gone and whose turn has not come."""
        self._began = ctx.now
        self._check_scheduled = False

    # ------------------------------------------------------------ one change

    def _circumstances(self, wish: Wish, replicas: Brokers | None = None) -> Circumstances:
        """``replicas``: of the partition, if not those that it has."""
        tp, cluster, ctx = wish.tp, self.cluster, self.ctx
        acceptable = [
            broker for broker in (*cluster.electable_for(tp), *self._not_fenced) if broker != wish.without
        ]
        config = ctx.topic_config(tp.topic)
        assignment = cluster.assignments[tp] if replicas is None else replicas
        # Settings that are not known yet: no replica outside the ISR is safe.
        configured = config.min_insync_replicas if tp.topic in ctx.topic_configs else 1
        return Circumstances(
            assignment,
            acceptable,
            min(configured, len(assignment)),
            ctx.guards.eligible_leader_replicas,
            wish.unclean or config.unclean_leader_election,
        )

    def _change(self, wish: Wish) -> Change | None:
        state = self.cluster.states[wish.tp]
        isr = tuple(broker for broker in state.isr if broker != wish.without)
        unclean_shutdown = wish.without if wish.after_unclean_shutdown else None
        outcome = eligible_leaders.next_state(state, isr, self._circumstances(wish), unclean_shutdown)
        if outcome is None:
            return None
        reason: StateWriteReason | ElectionKind = outcome.kind or StateWriteReason.REPLICA_OFFLINE
        if outcome.kind is None and wish.after_unclean_shutdown:
            reason = StateWriteReason.UNCLEAN_SHUTDOWN
        if outcome.kind is ElectionKind.CLEAN and wish.shutting_down:
            reason = ElectionKind.CONTROLLED_SHUTDOWN
        return Change(wish.tp, outcome.state, state.version, Why(reason, wish.without))

    def _carry_out(self, wishes: Sequence[Wish]) -> Task:
        """Wishes for different partitions."""
        for start in range(0, len(wishes), PARTITIONS_PER_WRITE):
            some = wishes[start : start + PARTITIONS_PER_WRITE]
            changes = [change for change in map(self._change, some) if change is not None]
            if len(changes) > 1 and (yield from self.write_states(changes)):
                self.states_changed([change.tp for change in changes])
            elif changes:
                for wish in some:
                    yield from self._carry_out_alone(wish)

    def _carry_out_alone(self, wish: Wish) -> Task:
        conflicts = 0
        while (change := self._change(wish)) is not None:
            if (yield from self.write_state(*change)):
                break
            conflicts += 1
        if change is not None or conflicts:
            self.states_changed([wish.tp])  # after a conflict perhaps by an own write whose answer was lost

    def states_changed(self, tps: Sequence[TopicPartition]) -> None:
        cluster = self.cluster
        led = [tp for tp in tps if cluster.states[tp].leader != NO_LEADER]
        leaderless = [tp for tp in tps if cluster.states[tp].leader == NO_LEADER]
        self.phases.partitions_become(led, PartitionPhase.ONLINE)
        self.phases.partitions_become(leaderless, PartitionPhase.OFFLINE)
        for tp in tps:
            self.batch.add(cluster.partition(tp), cluster.assignments[tp])
        if leaderless:
            self._schedule_unclean_check(self.ctx.now)

    def with_isr(
        self, tp: TopicPartition, state: PartitionState, isr: tuple[BrokerId, ...]
    ) -> PartitionState:
        choice = LeaderChoice(state.leader, isr, None)
        outcome = eligible_leaders.with_leader(state, choice, self._circumstances(Wish(tp)))
        return eligible_leaders.recovered(outcome.state)

    def _elected(self, election: Election) -> Change | None:
        """A leader that was chosen on request: a preferred one, or instead of one that cannot write."""
        state = self.cluster.states[election.tp]
        choice = election.choose(state)
        if choice is None:
            return None
        outcome = eligible_leaders.with_leader(state, choice, self._circumstances(Wish(election.tp)))
        why = Why(choice.kind or StateWriteReason.REPLICA_OFFLINE, election.absent)
        return Change(election.tp, outcome.state, state.version, why)

    # ------------------------------------------------------------ brokers go

    def brokers_failed(
        self, replicas: Iterable[tuple[TopicPartition, BrokerId]], restarted: Collection[BrokerId]
    ) -> Task:
        replicas = list(replicas)
        self._not_fenced = dict.fromkeys(broker for _, broker in replicas)
        replicas.sort(key=lambda replica: replica[1] not in restarted)
        yield from self.replicas_offline(replicas)

    def replicas_offline(self, replicas: Iterable[tuple[TopicPartition, BrokerId]]) -> Task:
        by_broker: dict[BrokerId, list[TopicPartition]] = {}
        replicas = list(replicas)
        self.phases.replicas_become(replicas, ReplicaPhase.OFFLINE)
        for tp, broker in replicas:
            if tp in self.cluster.states:
                by_broker.setdefault(broker, []).append(tp)
        for broker, tps in by_broker.items():
            self._not_fenced.pop(broker, None)
            yield from self._remove(broker, tps)
        self._not_fenced = {}
        self.batch.send()

    def replicas_failed(self, broker: BrokerId, tps: Iterable[TopicPartition]) -> Task:
        cluster = self.cluster
        failed = [tp for tp in tps if tp in cluster.states and (tp, broker) in cluster.failed]
        for tp in failed:
            self.batch.add(cluster.partition(tp), ())  # if nothing else changes: which replicas are offline
        yield from self.replicas_offline([(tp, broker) for tp in failed])

    def retire(self, leaving: BrokerId) -> Task:
        """A broker shuts down. Its partitions may be left without a leader, so it never has to wait."""
        tps = [tp for tp in self.cluster.replicas_on(leaving) if tp in self.cluster.states]
        yield from self._remove(leaving, tps, shutting_down=True)
        self.batch.send()

    def _remove(
        self, broker: BrokerId, tps: Iterable[TopicPartition], *, shutting_down: bool = False
    ) -> Task:
        states = self.cluster.states
        yield from self._carry_out(
            [Wish(tp, broker, shutting_down=shutting_down) for tp in tps if broker in states[tp].isr]
        )

    def without_replicas(self, tp: TopicPartition, removed: Brokers) -> Task:
        """Replicas that are no longer assigned leave the ISR and the eligible replicas, all in one write."""
        while removed:
            before = self.cluster.states[tp]
            change = self.removal(tp, before, self.cluster.assignments[tp], removed)
            if (yield from self.write_state(*change)):
                self.states_changed([tp])
                break
        self.batch.send()

    def removal(
        self, tp: TopicPartition, before: PartitionState, replicas: Brokers, removed: Brokers
    ) -> Change:
        """``replicas`` stay, ``removed`` leave. As in KRaft it raises the leader epoch: the leader must not
        propose them again."""
        state = replace(
            before,
            elr=tuple(broker for broker in before.elr if broker not in removed),
            last_known_elr=tuple(broker for broker in before.last_known_elr if broker not in removed),
        )
        isr = tuple(broker for broker in state.isr if broker not in removed)
        outcome = eligible_leaders.next_state(state, isr, self._circumstances(Wish(tp), replicas))
        changed, kind = (state, None) if outcome is None else outcome
        changed = replace(
            changed,
            leader_epoch=LeaderEpoch(before.leader_epoch + 1),
            elr=tuple(broker for broker in changed.elr if broker not in removed),
        )
        why = Why(StateWriteReason.REASSIGNED if kind is None else ElectionKind.REASSIGNED)
        return Change(tp, changed, before.version, why)

    # ------------------------------------------------------------ brokers come

    def registered(self, nodes: Mapping[BrokerId, StoredNode], *, complete: bool = False) -> Task:
        """Handle new registrations, before anything is sent to these brokers. ``complete``: these are all
        registered brokers, at the start of this controller."""
        cluster = self.cluster
        if complete:
            yield from self._read_last_epochs()
            away = (broker for replicas in cluster.assignments.values() for broker in replicas)
            self._not_fenced = {broker: None for broker in sorted(set(away)) if broker not in nodes}
        news = sorted(b for b, node in nodes.items() if self._last_epochs.get(b) != node.stat.created)
        for broker in news:
            last = self._last_epochs.get(broker, NO_BROKER_EPOCH)
            previous = nodes[broker].value.previous_epoch
            clean = (last != NO_BROKER_EPOCH and previous == last) or not self.ctx.guards.unclean_shutdown
            if clean:
                yield from self._remove(broker, list(cluster.states))
            else:
                yield from self._carry_out(
                    [
                        Wish(tp, broker, after_unclean_shutdown=True)
                        for tp, state in cluster.states.items()
                        if broker in state.isr or broker in state.elr
                    ]
                )
            yield from self._keep_epoch(broker, BrokerEpoch(nodes[broker].stat.created))

    def _read_last_epochs(self) -> Task:
        found = yield Children(BROKER_EPOCHS)
        if not found.ok:
            yield Create(BROKER_EPOCHS)
        nodes = found.nodes if found.ok else {}
        self._last_epochs = {broker_of(path): node.value for path, node in nodes.items()}

    def _keep_epoch(self, broker: BrokerId, epoch: BrokerEpoch) -> Task:
        path = broker_epoch_path(broker)
        written = yield from self.fenced(SetValue(path, epoch, ANY_VERSION))
        if written.error is KeeperError.NO_NODE:
            yield from self.fenced(Create(path, epoch))
        self._last_epochs[broker] = epoch

    def elect_offline(self, tps: Sequence[TopicPartition], *, unclean: bool = False) -> Task:
        yield from self._carry_out([Wish(tp, unclean=unclean) for tp in tps])
        for tp in tps:
            if self.cluster.states[tp].leader == NO_LEADER:
                failure = ElectionFailure.NO_ELECTABLE_REPLICA
                self.ctx.emit(ElectionFailed(self.ctx.broker, tp, failure))

    # ------------------------------------------------------------ settings

    def min_isr_changed(self, topic: str) -> Task:
        """The eligible replicas are those of the old setting."""
        states = self.cluster.states
        for tp in self.cluster.topics.get(topic, ()):
            while tp in states and (states[tp].elr or states[tp].last_known_elr):
                state = states[tp]
                cleared = eligible_leaders.cleared(state)
                why = Why(StateWriteReason.ELIGIBLE_CLEARED)
                if (yield from self.write_state(tp, cleared, state.version, why)):
                    self.states_changed([tp])
                    break
        self.batch.send()

    def _schedule_unclean_check(self, now: Millis) -> None:
        """KRaft looks for partitions that may now be led uncleanly every few minutes after a controller has
        begun; a changed setting alone elects no leader. Here it looks only while some have no leader."""
        if not self._check_scheduled:
            self._check_scheduled = True
            interval = self.ctx.config.unclean_leader_election_interval_ms
            looks = (now - self._began) // interval + 1
            self.ctx.set_timer(self._began + looks * interval, self._check_unclean)

    def _check_unclean(self, now: Millis) -> None:
        self._check_scheduled = False
        states = self.cluster.states
        leaderless = [tp for tp, state in states.items() if state.leader == NO_LEADER]
        if self.in_office and leaderless:
            self._schedule_unclean_check(now)
            self.submit(self._elect_uncleanly)

    def _elect_uncleanly(self) -> Procedure[None]:
        allowed = self.ctx.topic_config
        states = self.cluster.states
        yield from self._carry_out(
            [
                Wish(tp)
                for tp, state in states.items()
                if state.leader == NO_LEADER and allowed(tp.topic).unclean_leader_election
            ]
        )
        self.batch.send()
