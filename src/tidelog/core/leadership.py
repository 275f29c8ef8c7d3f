"""Leadership moves on request: of an administrator (KIP-460), of a broker that is about to leave, or of a
replica that cannot write."""

from __future__ import annotations

from tidelog.core import elections
from tidelog.core.machines import StateMachines
from tidelog.core.messages import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    RelieveReplicaRequest,
    RelieveReplicaResponse,
)
from tidelog.core.tasks import Procedure
from tidelog.core.types import BrokerId, PartitionState, TopicPartition
from tidelog.wire.errors import ErrorCode


def elect_leader(machines: StateMachines, request: ElectLeadersRequest) -> Procedure[ElectLeadersResponse]:
    tp, cluster = request.tp, machines.cluster
    if tp.topic in cluster.deleting:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif tp not in cluster.states:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif request.election is ElectionType.UNCLEAN:
        error = yield from _elect_any(machines, tp)
    else:
        error = yield from _elect_preferred(machines, tp)
    return ElectLeadersResponse(tp, error)


def _elect_preferred(machines: StateMachines, tp: TopicPartition) -> Procedure[ErrorCode]:
    cluster = machines.cluster
    assignment, state = cluster.assignments[tp], cluster.states[tp]

    def choose(state: PartitionState) -> elections.Choice:
        return elections.preferred_leader(assignment, state, cluster.electable_for(tp))

    if state.leader == assignment[0]:
        return ErrorCode.ELECTION_NOT_NEEDED
    if choose(state) is None:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    if not machines.ctx.generation.commits_by_isr:
        yield from machines.call_vote(tp)
        return ErrorCode.NONE
    yield from machines.elect(tp, choose, "preferred leader")
    machines.batch.send()
    return ErrorCode.NONE


def _elect_any(machines: StateMachines, tp: TopicPartition) -> Procedure[ErrorCode]:
    """An unclean election: for this once, whatever the topic allows."""
    cluster = machines.cluster
    if cluster.has_live_leader(tp):
        return ErrorCode.ELECTION_NOT_NEEDED
    if machines.ctx.generation.commits_by_isr:
        yield from machines.elect_offline(tp, unclean=True)
        machines.batch.send()
    # A majority is not asked to vote again: its ballot is open until there is one.
    if cluster.has_live_leader(tp):
        return ErrorCode.NONE
    return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def controlled_shutdown(
    machines: StateMachines, request: ControlledShutdownRequest
) -> Procedure[ControlledShutdownResponse]:
    """Move leadership away from a broker that is about to leave, then let its replicas go."""
    cluster, leaving = machines.cluster, request.broker
    if cluster.live.get(leaving) != request.broker_epoch:
        return ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH)
    cluster.leaving.add(leaving)
    followed = []
    for tp in cluster.replicas_on(leaving):
        if tp not in cluster.states or len(cluster.assignments[tp]) == 1:
            continue
        if cluster.states[tp].leader != leaving:
            followed.append(tp)
        elif machines.ctx.generation.commits_by_isr:
            yield from machines.elect(
                tp,
                lambda state, tp=tp: elections.shutdown_leader(  # type: ignore[misc]
                    cluster.assignments[tp], state, cluster.electable_for(tp), cluster.leaving
                ),
                f"{leaving} is shutting down",
            )
    machines.batch.send()
    machines.channels.stop_replica(leaving, tuple(followed), delete=False)
    yield from machines.replicas_offline([(tp, leaving) for tp in followed])
    remaining = tuple(
        tp
        for tp, state in cluster.states.items()
        # What has no other replica cannot be moved: waiting for it would be waiting for ever.
        if state.leader == leaving and len(cluster.assignments[tp]) > 1
    )
    return ControlledShutdownResponse(ErrorCode.NONE, remaining)


def relieve_replica(
    machines: StateMachines, request: RelieveReplicaRequest
) -> Procedure[RelieveReplicaResponse]:
    """A replica cannot write to its log (a full disk, say). Let an in-sync replica lead in its place, and the
    ISR go on without it: it follows, tries again, and is taken back when it has caught up. A leader without
    another in-sync replica stays what it is, for what it has can still be read."""
    tp, cluster, failing = request.tp, machines.cluster, request.broker
    error = ErrorCode.NONE
    yield from machines.refresh_state(tp)
    state = cluster.states.get(tp)
    if state is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif cluster.live.get(failing) != request.broker_epoch:
        error = ErrorCode.STALE_BROKER_EPOCH
    elif request.leader_epoch != state.leader_epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH  # it was relieved already, or will hear of this epoch soon
    elif not machines.ctx.generation.commits_by_isr:
        error = yield from _vote_without(machines, tp, failing)
    elif failing in (state.leader, *state.isr):
        error = yield from _go_on_without(machines, tp, failing)
    return RelieveReplicaResponse(tp, error)


def _go_on_without(machines: StateMachines, tp: TopicPartition, failing: BrokerId) -> Procedure[ErrorCode]:
    cluster = machines.cluster

    def choose(state: PartitionState) -> elections.Choice:
        choice = elections.shutdown_leader(
            cluster.assignments[tp], state, cluster.electable_for(tp), (failing,)
        )
        return choice if choice is None or state.leader == failing else (state.leader, choice[1])

    state = cluster.states[tp]
    if choose(state) is None:
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    leads = state.leader == failing
    reason = "first live in-sync replica" if leads else f"replica {failing} is offline"
    yield from machines.elect(tp, choose, reason)
    machines.batch.send()
    return ErrorCode.NONE


def _vote_without(machines: StateMachines, tp: TopicPartition, failing: BrokerId) -> Procedure[ErrorCode]:
    """The one that cannot write may win by its longer log; then it cannot open its epoch, and says so."""
    cluster, assignment = machines.cluster, machines.cluster.assignments[tp]
    others = [b for b in assignment if b != failing and cluster.serves(tp, b)]
    if cluster.states[tp].leader != failing:
        return ErrorCode.NONE  # a majority commits without it
    if len(others) <= len(assignment) // 2:
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    yield from machines.call_vote(tp)
    return ErrorCode.NONE
