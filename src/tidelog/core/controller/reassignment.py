"""Reassignment: a partition moves to other brokers while it is in use (KIP-455).

Kafka 2.7's procedure, with the names of its steps:

======  ===============================================================================================
begin   U1  The topic's node lists both ends of the move (``TopicNode``); from here a new controller goes on.
        U2  Replicas of an earlier move that are in neither are removed.
        A1  A new leader epoch: the leader learns of its new followers, and they of the leader.
finish  B1  Once every replica of the target is in the ISR, the target is the replica list.
        B3  The others leave the ISR; if one of them led, an in-sync replica of the target takes over.
        B5  They are deleted.
        B6  The topic's node lists the target alone.
======  ===============================================================================================

A controller that dies anywhere in between leaves a move in the topic's node. Its successor looks at the ISR
and does one of the two parts again: each is harmless if it was done before. A cancelled move is a move back
to the origin, which has nothing to add and so ends at once.

Where Kafka 2.7 and KRaft differ, this is the safer of both: as in KRaft no move is changed if the replicas
that stay are not in sync (``in_sync_replica_stays``), and the first write has the new leader and the smaller
ISR; as in 2.7 all of the target must be in sync before anything is removed (``target_in_sync``), not only
what is added. There are as many writes, and leader epochs, as in 2.7.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from tidelog.core import events
from tidelog.core.assignments import NOT_MOVING, Brokers, Reassignment, TopicNode, reassigned
from tidelog.core.controller import leader_election
from tidelog.core.controller.cluster_state import ClusterState
from tidelog.core.controller.kept_states import Change, Why, successor
from tidelog.core.controller.partition_changes import EligibleLeaderMachines
from tidelog.core.controller.state_machines import StateMachines
from tidelog.core.keeper_paths import state_path, topic_path
from tidelog.core.keeper_port import Get, KeeperError, SetValue
from tidelog.core.keeper_tasks import Procedure, Task
from tidelog.core.machine_phases import PartitionPhase, ReplicaPhase
from tidelog.core.reasons import ElectionKind, StateWriteReason
from tidelog.core.topic_messages import (
    AlterReassignmentRequest,
    AlterReassignmentResponse,
    ListReassignmentsRequest,
    ListReassignmentsResponse,
)
from tidelog.core.types import NO_LEADER, BrokerId, PartitionState, TopicPartition
from tidelog.wire.errors import ErrorCode

REPLICAS_MAX = 32_767
"""As for a new topic."""

# ---------------------------------------------------------------- requests


def alter_reassignment(
    machines: StateMachines, request: AlterReassignmentRequest
) -> Procedure[AlterReassignmentResponse]:
    tp, cluster = request.tp, machines.cluster
    yield from machines.refresh_states(tp)
    refusal = _refusal(machines, request)
    if refusal is None:
        replicas, move = cluster.assignments[tp], cluster.moves.get(tp, NOT_MOVING)
        target = request.replicas if request.replicas is not None else move.origin(replicas)
        planned = reassigned(replicas, move, target)
        refusal = _unsafe(machines, tp, planned[0]) or (yield from _begin(machines, tp, *planned))
    error, message = refusal or (ErrorCode.NONE, None)
    return AlterReassignmentResponse(tp=tp, error=error, message=message)


def list_reassignments(
    machines: StateMachines, request: ListReassignmentsRequest
) -> Procedure[ListReassignmentsResponse]:
    yield from ()
    cluster = machines.cluster
    moves = {
        tp: (cluster.assignments[tp], move)
        for tp, move in cluster.moves.items()
        if request.tps is None or tp in request.tps
    }
    return ListReassignmentsResponse(error=ErrorCode.NONE, moves=moves)


_Refusal = tuple[ErrorCode, str | None]


def _refusal(machines: StateMachines, request: AlterReassignmentRequest) -> _Refusal | None:
    tp, replicas, cluster = request.tp, request.replicas, machines.cluster
    if tp not in cluster.assignments:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
    if not machines.ctx.generation.commits_by_isr:
        # The replicas are the voters. To change them safely needs another protocol (Raft §6).
        message = f"The rules of '{machines.ctx.generation.name}' do not reassign partitions."
        return ErrorCode.INVALID_REQUEST, message
    if replicas is not None:
        wrong = _wrong_replicas(cluster, tp, replicas)
        return None if wrong is None else (ErrorCode.INVALID_REPLICA_ASSIGNMENT, wrong)
    if tp not in cluster.moves:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
    return None


def _wrong_replicas(cluster: ClusterState, tp: TopicPartition, replicas: Brokers) -> str | None:
    if not replicas:
        return "Empty replica list specified in partition reassignment."
    if len(replicas) > REPLICAS_MAX:
        return f"A partition may have {REPLICAS_MAX} replicas, not {len(replicas)}."
    if len(set(replicas)) != len(replicas):
        return f"Duplicate replica ids in partition reassignment replica list: {list(replicas)}"
    if min(replicas) < 0:
        return f"Invalid broker id in replica list: {list(replicas)}"
    _, move = reassigned(cluster.assignments[tp], cluster.moves.get(tp, NOT_MOVING), replicas)
    if any(broker not in cluster.live for broker in move.adding):
        return (
            "Replica assignment has brokers that are not alive. "
            f"Replica list: {list(move.adding)}, live broker list: {sorted(cluster.live)}"
        )
    return None


def _unsafe(machines: StateMachines, tp: TopicPartition, replicas: Brokers) -> _Refusal | None:
    """A change removes what the move before has added. If nothing else is in sync, every committed record
    that only these have would be lost."""
    state = machines.cluster.states.get(tp)
    if state is None or not machines.ctx.guards.in_sync_replica_stays:
        return None
    if any(broker in replicas for broker in state.isr):
        return None
    message = (
        f"Unable to change the reassignment of {tp}: of the replicas that would remain, "
        f"{list(replicas)}, none is in sync; in sync are {list(state.isr)}."
    )
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT, message


# ---------------------------------------------------------------- from outside: something has changed


def resume(machines: StateMachines, among: Collection[BrokerId] | None = None) -> Task:
    """Go on with the moves: of a controller before this one, or after brokers ``among`` their replicas have
    come back."""
    cluster = machines.cluster
    for tp, move in list(cluster.moves.items()):
        if tp not in cluster.states:
            continue
        if among is None or any(broker in among for broker in move.target(cluster.assignments[tp])):
            yield from _watch_isr(machines, tp)
            yield from _go_on(machines, tp)


def isr_changed(machines: StateMachines, tps: Iterable[TopicPartition]) -> None:
    """The ISRs of these partitions have changed: some moves may be complete now."""
    moving = [tp for tp in tps if tp in machines.cluster.moves]
    if moving:
        machines.submit(lambda: _finish_complete(machines, moving))


def isr_written(machines: StateMachines, tp: TopicPartition) -> Task:
    """The watched state of a partition has changed (where leaders write their ISR to the keeper)."""
    if tp in machines.cluster.moves:
        yield from _watch_isr(machines, tp)
        yield from _finish_complete(machines, [tp])


def completed_by(machines: StateMachines, tp: TopicPartition, changed: PartitionState) -> Change | None:
    """In KRaft the new ISR that completes a move and the end of the move are one write."""
    if tp not in machines.cluster.moves or not isinstance(machines, EligibleLeaderMachines):
        return None
    if not _is_complete(machines, tp, changed):
        return None
    move = machines.cluster.moves[tp]
    target = move.target(machines.cluster.assignments[tp])
    return machines.removal(tp, changed, target, move.removing)


def finish_written(machines: StateMachines, change: Change) -> Task:
    """The rest of the end of a move, if its write was made."""
    state = machines.cluster.states[change.tp]
    if (state.leader_epoch, state.isr) == (change.state.leader_epoch, change.state.isr):
        yield from _finish(machines, change.tp, written=True)


def _finish_complete(machines: StateMachines, tps: list[TopicPartition]) -> Task:
    for tp in tps:
        if tp in machines.cluster.moves:
            yield from machines.refresh_states(tp)
            if _is_complete(machines, tp, machines.cluster.states[tp]):
                yield from _finish(machines, tp)


def _watch_isr(machines: StateMachines, tp: TopicPartition) -> Task:
    if not machines.ctx.generation.isr_through_controller:
        yield Get(state_path(tp), watch=True)


# ---------------------------------------------------------------- begin


def _begin(
    machines: StateMachines, tp: TopicPartition, replicas: Brokers, move: Reassignment
) -> Procedure[_Refusal | None]:
    cluster, before = machines.cluster, machines.cluster.assignments[tp]
    cancelled = not move and tp in cluster.moves
    if tp not in cluster.states:
        replicas, move = move.target(replicas), NOT_MOVING  # it never had a leader: there is nothing to copy
    refusal = yield from _write_node(machines, tp, replicas, move)
    if refusal is not None:
        return refusal
    cluster.assign(tp, replicas, move)
    if cancelled:
        machines.ctx.emit(events.ReassignmentCancelled(machines.ctx.broker, tp, replicas))
    else:
        facts = (replicas, move.adding, move.removing)
        machines.ctx.emit(events.ReassignmentStarted(machines.ctx.broker, tp, *facts))
    if tp not in cluster.states:
        yield from machines.create_partitions([tp])
        return None
    unneeded = tuple(broker for broker in before if broker not in replicas)
    if unneeded:
        yield from _leave(machines, tp, unneeded, at_end=False)
        _delete(machines, tp, unneeded)
    yield from _watch_isr(machines, tp)
    yield from _go_on(machines, tp)
    return None


def _write_node(
    machines: StateMachines, tp: TopicPartition, replicas: Brokers, move: Reassignment
) -> Procedure[_Refusal | None]:
    path = topic_path(tp.topic)
    while True:
        found = yield Get(path)
        if not found.ok or found.value.value is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
        node: TopicNode = found.value.value
        changed = node.moved(tp.partition, replicas, move)
        if changed == node:
            return None  # nothing to write, or an earlier attempt whose answer was lost
        written = yield from machines.fenced(SetValue(path, changed, found.value.stat.version))
        if written.ok:
            return None
        if written.error is KeeperError.TOO_LARGE:
            message = "The list of the topic's replicas is larger than the keeper accepts."
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, message


def _go_on(machines: StateMachines, tp: TopicPartition) -> Task:
    yield from machines.refresh_states(tp)
    if _is_complete(machines, tp, machines.cluster.states[tp]):
        yield from _finish(machines, tp)
    else:
        yield from _announce(machines, tp)


def _announce(machines: StateMachines, tp: TopicPartition) -> Task:
    """All replicas learn of each other. Under ``elr`` a new state is enough, its epoch stays."""
    cluster = machines.cluster
    yield from _renew(machines, tp)
    replicas, adding = cluster.assignments[tp], cluster.moves[tp].adding
    new = [(tp, broker) for broker in adding if broker in cluster.live]
    machines.phases.replicas_become(
        [replica for replica in new if cluster.replicas.get(replica) is not ReplicaPhase.ONLINE],
        ReplicaPhase.NEW,
    )
    machines.batch.add(cluster.partition(tp), replicas)
    machines.batch.send()


def _renew(machines: StateMachines, tp: TopicPartition) -> Task:
    """Write the state again, so that the leader reads its replicas again."""
    while True:
        state = machines.cluster.states[tp]
        renewed = state
        if not machines.ctx.generation.tracks_eligible_leaders:
            renewed = successor(state, state.leader, state.isr)
        if (yield from machines.write_state(tp, renewed, state.version, Why(StateWriteReason.REASSIGNED))):
            return


# ---------------------------------------------------------------- finish


def _is_complete(machines: StateMachines, tp: TopicPartition, state: PartitionState) -> bool:
    """Every replica of the target is in sync, and one of them can lead."""
    cluster = machines.cluster
    electable = cluster.electable_for(tp)
    target = cluster.moves.get(tp, NOT_MOVING).target(cluster.assignments[tp])
    if tp not in cluster.moves:
        return True  # cancelled, or only the order has changed
    if machines.ctx.guards.target_in_sync and not all(broker in state.isr for broker in target):
        return False
    return any(broker in electable and broker in state.isr for broker in target)


def _finish(machines: StateMachines, tp: TopicPartition, *, written: bool = False) -> Task:
    """``written``: the removed replicas have left the ISR."""
    cluster = machines.cluster
    move = cluster.moves.get(tp, NOT_MOVING)
    target = move.target(cluster.assignments[tp])
    added = [(tp, broker) for broker in move.adding if broker in cluster.live]
    machines.phases.replicas_become(added, ReplicaPhase.ONLINE)
    in_sync = cluster.states[tp].isr
    cluster.assignments[tp] = target
    if move:
        facts = (target, move.removing, in_sync)
        machines.ctx.emit(events.ReassignmentCompleted(machines.ctx.broker, tp, *facts))
    if not written:
        yield from _leave(machines, tp, move.removing, at_end=True)
    elif isinstance(machines, EligibleLeaderMachines):
        machines.states_changed([tp])
        machines.batch.send()
    _delete(machines, tp, move.removing)
    # Until this write a successor of this controller would find the move, and finish it once more.
    yield from _write_node(machines, tp, target, NOT_MOVING)
    cluster.assign(tp, target, NOT_MOVING)
    machines.batch.add(cluster.partition(tp), ())
    machines.batch.send()


def _leave(machines: StateMachines, tp: TopicPartition, removed: Brokers, *, at_end: bool) -> Task:
    """Replicas leave the ISR, and none of them leads any longer. ``at_end``: of the move."""
    cluster = machines.cluster
    if isinstance(machines, EligibleLeaderMachines):
        yield from machines.without_replicas(tp, removed)
    else:
        left = sum(broker in removed for broker in cluster.states[tp].isr)
        for _ in range(left + at_end):
            yield from _write_without(machines, tp, removed)
    if not cluster.has_live_leader(tp):
        machines.phases.partitions_become([tp], PartitionPhase.OFFLINE)
        yield from machines.elect_offline_partitions()


def _delete(machines: StateMachines, tp: TopicPartition, removed: Brokers) -> None:
    """Replicas leave the disks of their brokers. A broker that is down keeps its log, and reports it as stray
    when it is back, as in Kafka."""
    cluster = machines.cluster
    gone = [(tp, broker) for broker in removed]
    for phase in (ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED):
        machines.phases.replicas_become(gone, phase)
    for broker in removed:
        cluster.failed.pop((tp, broker), None)
        machines.channels.stop_replica(broker, (tp,), delete=True)
    for phase in (ReplicaPhase.DELETION_SUCCESSFUL, ReplicaPhase.NON_EXISTENT):
        machines.phases.replicas_become(gone, phase)


def _write_without(machines: StateMachines, tp: TopicPartition, removed: Brokers) -> Task:
    """Leader and ISR without these replicas. 2.7 first writes a leader of the target (even if it led
    before), and then takes the removed replicas out one by one, each with the next leader epoch. In between a
    leader that has heard of the first write no longer waits for replicas that are still in the ISR, and one
    of those may be elected. So all leave with the first write here, and the others only raise the epoch."""
    cluster = machines.cluster
    yield from machines.refresh_states(tp)
    while True:
        state = cluster.states[tp]
        isr = tuple(broker for broker in state.isr if broker not in removed)
        choice = leader_election.reassigned_leader(
            cluster.assignments[tp], replace(state, isr=isr), cluster.electable_for(tp)
        )
        if choice is None:
            follows = successor(state, NO_LEADER, isr or state.isr)
        else:
            follows = successor(state, choice.leader, isr)
        elected = choice is not None and choice.kind is not None
        why = Why(ElectionKind.REASSIGNED if elected else StateWriteReason.REASSIGNED)
        if (yield from machines.write_state(tp, follows, state.version, why)):
            break
    machines.phases.partitions_become([tp], PartitionPhase.ONLINE)
    machines.batch.add(cluster.partition(tp), cluster.assignments[tp])
    machines.batch.send()
