"""Leadership moves on request: of an administrator (KIP-460), of a broker that shuts down, or of a replica
that cannot write."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.core.controller import leader_election
from tidelog.core.controller.cluster_state import ClusterState
from tidelog.core.controller.state_machines import Election, StateMachines
from tidelog.core.keeper_tasks import Procedure
from tidelog.core.messages import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    RelieveReplicaRequest,
    RelieveReplicaResponse,
)
from tidelog.core.reasons import ElectionKind
from tidelog.core.types import BrokerId, PartitionState, TopicPartition
from tidelog.wire.errors import ErrorCode


def elect_leaders(
    machines: StateMachines, requests: Sequence[ElectLeadersRequest]
) -> Procedure[list[ElectLeadersResponse]]:
    """Requests for different partitions."""
    yield from machines.refresh_states(*(request.tp for request in requests))
    errors = {request.tp: _needless(machines, request) for request in requests}
    asked = {request.tp: request.election for request in requests if errors[request.tp] is ErrorCode.NONE}
    unclean = [tp for tp, election in asked.items() if election is ElectionType.UNCLEAN]
    preferred = [tp for tp, election in asked.items() if election is ElectionType.PREFERRED]
    if machines.ctx.generation.commits_by_isr:
        yield from machines.elect([_preferred(machines.cluster, tp) for tp in preferred])
        yield from machines.elect_offline(unclean, unclean=True)
        machines.batch.send()
    else:
        # Under majority rules an unclean election starts no new vote: the current one stays open until there
        # is a majority.
        for tp in preferred:
            yield from machines.call_vote(tp)
    for tp in unclean:
        if not machines.cluster.has_live_leader(tp):
            errors[tp] = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    return [ElectLeadersResponse(tp=tp, error=error) for tp, error in errors.items()]


def _needless(machines: StateMachines, request: ElectLeadersRequest) -> ErrorCode:
    """Why there is nothing to elect, or no candidate."""
    tp, cluster = request.tp, machines.cluster
    if tp.topic in cluster.deleting:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    state = cluster.states.get(tp)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if request.election is ElectionType.UNCLEAN:
        return ErrorCode.ELECTION_NOT_NEEDED if cluster.has_live_leader(tp) else ErrorCode.NONE
    if state.leader == cluster.assignments[tp][0]:
        return ErrorCode.ELECTION_NOT_NEEDED
    choice = _preferred(cluster, tp).choose(state)
    return ErrorCode.NONE if choice is not None else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def _preferred(cluster: ClusterState, tp: TopicPartition) -> Election:
    def choose(state: PartitionState) -> leader_election.LeaderChoice | None:
        return leader_election.preferred_leader(cluster.assignments[tp], state, cluster.electable_for(tp))

    return Election(tp, choose)


def controlled_shutdown(
    machines: StateMachines, request: ControlledShutdownRequest
) -> Procedure[ControlledShutdownResponse]:
    """Move leadership away from a broker that shuts down, then stop its replicas."""
    cluster, leaving = machines.cluster, request.broker
    if cluster.live.get(leaving) != request.broker_epoch:
        return ControlledShutdownResponse(error=ErrorCode.STALE_BROKER_EPOCH)
    cluster.leaving.add(leaving)
    yield from machines.retire(leaving)
    electable = cluster.electable()
    remaining = tuple(
        tp
        for tp, state in cluster.states.items()
        # Partitions without another candidate do not count, because waiting for them would never end. In
        # Kafka the last broker of a cluster retries until its attempts are used up.
        if state.leader == leaving and any(broker in electable for broker in cluster.assignments[tp])
    )
    return ControlledShutdownResponse(error=ErrorCode.NONE, remaining=remaining)


def relieve_replica(
    machines: StateMachines, request: RelieveReplicaRequest
) -> Procedure[RelieveReplicaResponse]:
    """A replica cannot write to its log (for example on a full disk). Elect another in-sync replica and
    remove this one from the ISR: it follows, retries, and rejoins when it has caught up. A leader without
    another in-sync replica stays leader, because its records can still be read."""
    tp, cluster, failing = request.tp, machines.cluster, request.broker
    error = ErrorCode.NONE
    yield from machines.refresh_states(tp)
    state = cluster.states.get(tp)
    if state is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif cluster.live.get(failing) != request.broker_epoch:
        error = ErrorCode.STALE_BROKER_EPOCH
    elif request.leader_epoch != state.leader_epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH  # it was relieved already, or learns of this epoch soon
    elif not machines.ctx.generation.commits_by_isr:
        error = yield from _vote_without(machines, tp, failing)
    elif failing in (state.leader, *state.isr):
        error = yield from _go_on_without(machines, tp, failing)
    return RelieveReplicaResponse(tp=tp, error=error)


def _go_on_without(machines: StateMachines, tp: TopicPartition, failing: BrokerId) -> Procedure[ErrorCode]:
    cluster = machines.cluster

    def choose(state: PartitionState) -> leader_election.LeaderChoice | None:
        choice = leader_election.shutdown_leader(
            cluster.assignments[tp], state, cluster.electable_for(tp), (failing,)
        )
        if choice is None:
            return None
        if state.leader == failing:
            return choice._replace(kind=ElectionKind.CLEAN)
        return leader_election.LeaderChoice(state.leader, choice.isr, None)

    if choose(cluster.states[tp]) is None:
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    yield from machines.elect([Election(tp, choose, failing)])
    machines.batch.send()
    return ErrorCode.NONE


def _vote_without(machines: StateMachines, tp: TopicPartition, failing: BrokerId) -> Procedure[ErrorCode]:
    """The replica that cannot write may win with a longer log; then it cannot open its epoch, and reports
    that."""
    cluster, assignment = machines.cluster, machines.cluster.assignments[tp]
    others = [b for b in assignment if b != failing and cluster.serves(tp, b)]
    if cluster.states[tp].leader != failing:
        return ErrorCode.NONE  # a majority commits without it
    if len(others) <= len(assignment) // 2:
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    yield from machines.call_vote(tp)
    return ErrorCode.NONE
