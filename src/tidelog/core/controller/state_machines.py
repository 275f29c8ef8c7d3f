"""The controller's partition and replica state machines, as in Kafka 2.7.

Partition: New → Online ⇄ Offline. Replica: New → Online ⇄ Offline. The epochs that real clusters show follow
from two rules here and from nothing else:

* every write of the controller (an election, the removal of a dead replica from an ISR) adds one to the
  leader epoch; a leader's own ISR change does not;
* when a broker fails, the partition machine runs first and the replica machine second; when a controller
  takes over, it is the other way round. Hence a leader that dies alone costs one epoch and a leader that
  dies together with the controller costs two. Before 2.0 it costs one as well: a new controller leaves the
  replicas of dead brokers alone.

An event that changes many partitions, such as the death of a broker, writes them in one transaction
(``kept_states``), because single writes would each wait for the keeper's disk. If that is refused because of
another write, each change is tried alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tidelog.core import events
from tidelog.core.context import Context
from tidelog.core.controller import leader_election
from tidelog.core.controller.broker_channels import ControlChannels, RequestBatch
from tidelog.core.controller.cluster_state import ClusterState
from tidelog.core.controller.kept_states import Change, KeptStates, Why, successor
from tidelog.core.controller.phases import Phases
from tidelog.core.controller.voting import Ballots
from tidelog.core.keeper_paths import partition_path, partitions_path, state_path
from tidelog.core.keeper_port import (
    Create,
    StoredNode,
    Write,
)
from tidelog.core.keeper_tasks import Procedure, Task
from tidelog.core.machine_phases import PartitionPhase, ReplicaPhase
from tidelog.core.messages import PartitionAssignment
from tidelog.core.reasons import ElectionFailure, ElectionKind, StateWriteReason
from tidelog.core.types import FIRST_EPOCH, NO_LEADER, BrokerId, PartitionState, TopicPartition

Chooser = Callable[[PartitionState], leader_election.LeaderChoice | None]

PARTITIONS_PER_WRITE = 100
"""A transaction of ZooKeeper must fit into a megabyte; this many partitions are some 50 kB."""


class Election(NamedTuple):
    tp: TopicPartition
    choose: Chooser
    absent: BrokerId | None = None
    """The broker that must not lead any more, if that is the reason of the election."""


class StateMachines(KeptStates):
    __slots__ = ("_submit", "ballots", "batch", "in_office", "phases")

    def __init__(
        self,
        ctx: Context,
        cluster: ClusterState,
        channels: ControlChannels,
        epoch_version: int,
        submit: Callable[[StateMachines, Callable[[], Task]], None],
    ) -> None:
        super().__init__(ctx, cluster, channels, epoch_version)
        self.batch = RequestBatch(channels)
        self.ballots = Ballots(channels)
        self.phases = Phases(ctx, cluster)
        self._submit = submit
        self.in_office = True
        """False once this controller has resigned."""

    def submit(self, task: Callable[[], Task]) -> None:
        """Queue a task that runs only while this broker is the controller."""
        self._submit(self, task)

    # ------------------------------------------------------------ topics

    def remove_topic(self, topic: str) -> list[PartitionAssignment]:
        """The controller forgets a topic. Returns its partitions with their states, without a leader. Its
        replicas are offline, until they are deleted or forgotten too."""
        cluster = self.cluster
        known = [tp for tp in cluster.topics.get(topic, ()) if tp in cluster.partitions]
        self.phases.replicas_become(
            [(tp, broker) for tp in known for broker in cluster.assignments[tp]], ReplicaPhase.OFFLINE
        )
        self.phases.partitions_become(known, PartitionPhase.OFFLINE)
        self.phases.partitions_become(known, PartitionPhase.NON_EXISTENT)
        removed = cluster.remove_topic(topic)
        for partition in removed:
            self.ballots.close(partition.tp)
            self.batch.add_deleted(partition)
        return removed

    # ------------------------------------------------------------ the partition machine

    def create_partitions(self, tps: Iterable[TopicPartition]) -> Task:
        """New partitions come online led by their first live replica, all live ones in sync, epoch 0."""
        cluster, electable = self.cluster, self.cluster.electable()
        fresh: list[tuple[TopicPartition, PartitionState]] = []
        tps = tuple(tps)
        self._created([tp for tp in tps if tp in cluster.states])
        uncreated = [tp for tp in tps if tp not in cluster.states]
        self.phases.partitions_become(uncreated, PartitionPhase.NEW)
        replicas = [(tp, broker) for tp in uncreated for broker in cluster.assignments[tp]]
        self.phases.replicas_become([r for r in replicas if r not in cluster.replicas], ReplicaPhase.NEW)
        for tp in uncreated:
            choice = leader_election.first_leader(cluster.assignments[tp], electable)
            if choice is None:
                failure = ElectionFailure.NO_LIVE_REPLICA
                self.ctx.emit(events.ElectionFailed(self.ctx.broker, tp, failure))
                continue
            leader, isr = choice
            if not self.ctx.generation.commits_by_isr:
                isr = cluster.assignments[tp]
            fresh.append((tp, PartitionState(leader, FIRST_EPOCH, isr, self.channels.controller_epoch)))
        for start in range(0, len(fresh), PARTITIONS_PER_WRITE):
            yield from self._create_states(fresh[start : start + PARTITIONS_PER_WRITE])
        self.batch.send()

    def _create_states(self, fresh: Sequence[tuple[TopicPartition, PartitionState]]) -> Task:
        """Many partitions in one transaction; if a node of one exists already, one after the other."""
        writes: list[Write] = []
        for tp, state in fresh:
            if tp.partition == 0:
                writes.append(Create(partitions_path(tp.topic)))
            writes += (Create(partition_path(tp)), Create(state_path(tp), state))
        result = yield from self.fenced(*writes)
        for tp, state in fresh:
            if result.ok:
                self.state_written(tp, state, Why(StateWriteReason.CREATED))
            else:
                yield from self._create_state(tp, state)
        self._created([tp for tp, _ in fresh if tp in self.cluster.states])

    def _create_state(self, tp: TopicPartition, state: PartitionState) -> Task:
        yield Create(partitions_path(tp.topic))  # both may exist already
        yield Create(partition_path(tp))
        result = yield from self.fenced(Create(state_path(tp), state))
        if result.ok:
            self.state_written(tp, state, Why(StateWriteReason.CREATED))
        else:
            yield from self.read_state(tp)

    def _created(self, tps: Sequence[TopicPartition]) -> None:
        cluster = self.cluster
        replicas = [(tp, broker) for tp in tps for broker in cluster.assignments[tp]]
        self.phases.partitions_become(tps, PartitionPhase.ONLINE)
        self.phases.replicas_become([r for r in replicas if r[1] in cluster.live], ReplicaPhase.ONLINE)
        self.phases.replicas_become([r for r in replicas if r[1] not in cluster.live], ReplicaPhase.OFFLINE)
        for tp in tps:
            self.batch.add(cluster.partition(tp), cluster.assignments[tp])

    def elect_offline_partitions(self) -> Task:
        """Try to elect a leader for every partition without one."""
        cluster = self.cluster
        offline = [tp for tp, phase in cluster.partitions.items() if phase is PartitionPhase.OFFLINE]
        if self.ctx.generation.commits_by_isr:
            yield from self.elect_offline(offline)
        else:
            for tp in offline:
                yield from self.call_vote(tp)
        fresh = [tp for tp, phase in cluster.partitions.items() if phase is PartitionPhase.NEW]
        if fresh:
            yield from self.create_partitions(fresh)
        self.batch.send()

    def elect_offline(self, tps: Sequence[TopicPartition], *, unclean: bool = False) -> Task:
        """``unclean``: allow unclean election this time, whatever the topics' settings."""
        for start in range(0, len(tps), PARTITIONS_PER_WRITE):
            some = tps[start : start + PARTITIONS_PER_WRITE]
            yield from self.refresh_states(*some)
            yield from self.elect([self._offline_election(tp, unclean=unclean) for tp in some])

    def _offline_election(self, tp: TopicPartition, *, unclean: bool) -> Election:
        cluster = self.cluster
        assignment = cluster.assignments[tp]
        allowed = unclean or self.ctx.topic_config(tp.topic).unclean_leader_election

        def choose(state: PartitionState) -> leader_election.LeaderChoice | None:
            return leader_election.offline_leader(
                assignment, state, cluster.electable_for(tp), unclean=allowed
            )

        return Election(tp, choose)

    def elect(self, wanted: Sequence[Election]) -> Task:
        """Write the choice for each of these different partitions, with the next leader epoch."""
        for start in range(0, len(wanted), PARTITIONS_PER_WRITE):
            some = wanted[start : start + PARTITIONS_PER_WRITE]
            if len(some) == 1 or not (yield from self._elect_together(some)):
                for election in some:
                    yield from self._elect_alone(election)

    def _elect_together(self, wanted: Sequence[Election]) -> Procedure[bool]:
        changes = [self._elected(election) for election in wanted]
        made = [change for change in changes if change is not None]
        if made and not (yield from self.write_states(made)):
            return False
        self._elections_ended({e.tp: c is not None for e, c in zip(wanted, changes, strict=True)})
        return True

    def _elect_alone(self, election: Election) -> Task:
        """Re-read and choose again on a conflict."""
        while (change := self._elected(election)) is not None:
            if (yield from self.write_state(*change)):
                break
        self._elections_ended({election.tp: change is not None})

    def _elected(self, election: Election) -> Change | None:
        state = self.cluster.states[election.tp]
        choice = election.choose(state)
        if choice is None:
            return None
        why = Why(choice.kind or StateWriteReason.REPLICA_OFFLINE, election.absent)
        return Change(election.tp, successor(state, choice.leader, choice.isr), state.version, why)

    def _elections_ended(self, outcomes: dict[TopicPartition, bool]) -> None:
        cluster = self.cluster
        self.phases.partitions_become([tp for tp, found in outcomes.items() if found], PartitionPhase.ONLINE)
        for tp, found in outcomes.items():
            if found:
                self.batch.add(cluster.partition(tp), cluster.assignments[tp])
            else:
                failure = ElectionFailure.NO_ELECTABLE_REPLICA
                self.ctx.emit(events.ElectionFailed(self.ctx.broker, tp, failure))

    # ------------------------------------------------------------ the replica machine

    def replicas_online(self, broker: BrokerId) -> None:
        """Send a broker LeaderAndIsr for all its replicas. Its return alone changes no epoch and no ISR."""
        cluster = self.cluster
        tps = cluster.replicas_on(broker)
        self.phases.replicas_become([(tp, broker) for tp in tps], ReplicaPhase.ONLINE)
        for tp in tps:
            if tp in cluster.states:
                self.batch.add(cluster.partition(tp), (broker,))

    def replicas_offline(self, replicas: Iterable[tuple[TopicPartition, BrokerId]]) -> Task:
        """Remove dead replicas from their ISRs. The last member stays (only it has all records; see
        ``empties_isr_if_unclean``), but as in Kafka the state is written and the epoch raised even then."""
        cluster = self.cluster
        in_sync = []
        replicas = tuple(replicas)
        self.phases.replicas_become(replicas, ReplicaPhase.OFFLINE)
        for tp, broker in replicas:
            if tp in cluster.states and self.ctx.generation.commits_by_isr:
                in_sync.append((tp, broker))
        for some in _of_different_partitions(in_sync):
            yield from self.refresh_states(*(tp for tp, _ in some))
            if len(some) == 1 or not (yield from self._remove_together(some)):
                for tp, broker in some:
                    yield from self._remove_alone(tp, broker)
        self.batch.send()

    def replicas_failed(self, broker: BrokerId, tps: Iterable[TopicPartition]) -> Task:
        """A live broker cannot use some of its logs. As when a broker dies: elect, then shrink ISRs."""
        cluster = self.cluster
        failed = [tp for tp in tps if tp in cluster.states and (tp, broker) in cluster.failed]
        leaderless = [tp for tp in failed if not cluster.has_live_leader(tp)]
        self.phases.partitions_become(leaderless, PartitionPhase.OFFLINE)
        for tp in failed:
            self.batch.add(cluster.partition(tp), ())  # if nothing else changes: which replicas are offline
        yield from self.elect_offline_partitions()
        yield from self.replicas_offline([(tp, broker) for tp in failed])

    def replicas_recovered(self, broker: BrokerId, tps: Iterable[TopicPartition]) -> Task:
        """A broker can use logs again. Partitions without a leader may get one now; in the others the replica
        catches up, as after a restart."""
        cluster = self.cluster
        recovered = [tp for tp in tps if tp in cluster.states and cluster.serves(tp, broker)]
        self.phases.replicas_become([(tp, broker) for tp in recovered], ReplicaPhase.ONLINE)
        for tp in recovered:
            self.batch.add(cluster.partition(tp), ())
        yield from self.elect_offline_partitions()

    def _remove_together(self, replicas: Sequence[tuple[TopicPartition, BrokerId]]) -> Procedure[bool]:
        removals = [(self._removal(tp, broker), broker) for tp, broker in replicas]
        made = [(change, broker) for change, broker in removals if change is not None]
        if made and not (yield from self.write_states([change for change, _ in made])):
            return False
        for change, broker in made:
            self._tell_others(change.tp, broker)
        return True

    def _remove_alone(self, tp: TopicPartition, broker: BrokerId) -> Task:
        conflicts = 0
        while (change := self._removal(tp, broker)) is not None:
            if (yield from self.write_state(*change)):
                break
            conflicts += 1
        if change is not None or conflicts:
            # No longer in the ISR after a conflict: this controller's own write, whose answer was lost.
            # Brokers have not received it yet.
            self._tell_others(tp, broker)

    def _removal(self, tp: TopicPartition, broker: BrokerId) -> Change | None:
        """None if the replica is not in the ISR."""
        state = self.cluster.states[tp]
        if broker not in state.isr:
            return None
        leader = NO_LEADER if state.leader == broker else state.leader
        isr = tuple(b for b in state.isr if b != broker)
        if not isr and not (
            self.ctx.generation.empties_isr_if_unclean
            and self.ctx.topic_config(tp.topic).unclean_leader_election
        ):
            isr = state.isr
        why = Why(StateWriteReason.REPLICA_OFFLINE, broker)
        return Change(tp, successor(state, leader, isr), state.version, why)

    def _tell_others(self, tp: TopicPartition, broker: BrokerId) -> None:
        others = tuple(b for b in self.cluster.assignments[tp] if b != broker)
        self.batch.add(self.cluster.partition(tp), others)

    # ------------------------------------------------------------ brokers come and go

    def brokers_failed(
        self, replicas: Iterable[tuple[TopicPartition, BrokerId]], restarted: Collection[BrokerId]
    ) -> Task:
        """Partitions first (elect), replicas second (shrink ISRs). ``restarted``: brokers that are back."""
        yield from self.elect_offline_partitions()
        yield from self.replicas_offline(replicas)

    def registered(self, nodes: Mapping[BrokerId, StoredNode], *, complete: bool = False) -> Task:
        """Brokers have registered; nothing has been sent to them yet."""
        yield from ()

    def retire(self, leaving: BrokerId) -> Task:
        """Move leadership away from a broker that shuts down, then stop its replicas."""
        cluster = self.cluster
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        for tp in cluster.replicas_on(leaving):
            if tp in cluster.states and len(cluster.assignments[tp]) > 1:
                (led if cluster.states[tp].leader == leaving else followed).append(tp)
        yield from self.refresh_states(*led)
        if self.ctx.generation.commits_by_isr:
            yield from self.elect([self._succession(tp, leaving) for tp in led])
        self.batch.send()
        self.channels.stop_replica(leaving, tuple(followed), delete=False)
        yield from self.replicas_offline([(tp, leaving) for tp in followed])

    def _succession(self, tp: TopicPartition, leaving: BrokerId) -> Election:
        cluster = self.cluster

        def choose(state: PartitionState) -> leader_election.LeaderChoice | None:
            return leader_election.shutdown_leader(
                cluster.assignments[tp], state, cluster.electable_for(tp), cluster.leaving
            )

        return Election(tp, choose, leaving)

    def with_isr(
        self, tp: TopicPartition, state: PartitionState, isr: tuple[BrokerId, ...]
    ) -> PartitionState:
        """The state after an ISR change of the leader."""
        return replace(state, isr=isr)

    # ------------------------------------------------------------ majority elections

    def call_vote(self, tp: TopicPartition) -> Task:
        """Remove the leader in the keeper first, so that a rebooted voter cannot return to it, then ask for
        votes."""
        cluster = self.cluster
        if not self.ballots.is_open(tp):
            while True:
                state = cluster.states[tp]
                vacant = successor(state, NO_LEADER, state.isr)
                why = Why(StateWriteReason.BALLOT_OPENED)
                if (yield from self.write_state(tp, vacant, state.version, why)):
                    break
            self.ballots.open(tp, cluster.states[tp].leader_epoch)
        self.ballots.ask(tp, [b for b in cluster.assignments[tp] if cluster.serves(tp, b)])

    def count_votes(self, tp: TopicPartition) -> Task:
        cluster = self.cluster
        winner = self.ballots.winner(tp, cluster.assignments.get(tp, ()))
        if winner is None or winner not in cluster.electable_for(tp):
            return
        self.ballots.close(tp)

        def choose(state: PartitionState) -> leader_election.LeaderChoice:
            return leader_election.LeaderChoice(winner, state.isr, ElectionKind.MAJORITY)

        yield from self.elect([Election(tp, choose)])
        self.batch.send()


def _of_different_partitions(
    replicas: Iterable[tuple[TopicPartition, BrokerId]],
) -> Iterator[list[tuple[TopicPartition, BrokerId]]]:
    """In order, as many as fit one write. The second replica of a partition waits, because its change starts
    from the result of the first."""
    some: dict[TopicPartition, BrokerId] = {}
    for tp, broker in replicas:
        if tp in some or len(some) == PARTITIONS_PER_WRITE:
            yield list(some.items())
            some = {}
        some[tp] = broker
    if some:
        yield list(some.items())
