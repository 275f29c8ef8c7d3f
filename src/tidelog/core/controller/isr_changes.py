"""The controller's handling of ISR changes: proposals of leaders (KIP-497), or their own writes before
that."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.core import keeper_paths
from tidelog.core.controller import reassignment
from tidelog.core.controller.kept_states import Change, Why
from tidelog.core.controller.state_machines import StateMachines
from tidelog.core.keeper_port import Children, Delete
from tidelog.core.keeper_tasks import Procedure, Task
from tidelog.core.messages import AlterIsrRequest, AlterIsrResponse
from tidelog.core.reasons import StateWriteReason
from tidelog.core.types import PartitionState
from tidelog.wire.errors import ErrorCode


def alter_isrs(
    machines: StateMachines, requests: Sequence[AlterIsrRequest]
) -> Procedure[list[AlterIsrResponse]]:
    """Requests for different partitions. Each broker gets all changes in one request: when a broker with
    thousands of replicas has caught up, thousands of proposals arrive at once."""
    changes = [_change(machines, request) for request in requests]
    made = [change for change in changes if isinstance(change, Change)]
    if len(made) == 1 or (made and not (yield from machines.write_states(made))):
        for change in made:
            yield from machines.write_state(*change)
    responses = [
        _response(machines, request, change) for request, change in zip(requests, changes, strict=True)
    ]
    machines.batch.send()
    for change in made:
        if change.why.reason is not StateWriteReason.ISR_ASKED:
            yield from reassignment.finish_written(machines, change)
    reassignment.isr_changed(machines, [change.tp for change in made])
    return responses


def _change(machines: StateMachines, request: AlterIsrRequest) -> Change | ErrorCode | None:
    """None: a repeated request whose answer was lost."""
    state = machines.cluster.states.get(request.tp)
    error = _refusal(machines, request, state)
    if error is not ErrorCode.NONE or state is None:
        return error
    if request.isr == state.isr:
        return None
    version = request.version if machines.ctx.guards.partition_version else state.version
    changed = machines.with_isr(request.tp, state, request.isr)
    completed = reassignment.completed_by(machines, request.tp, changed)
    if completed is not None:
        return completed._replace(version=version)
    return Change(request.tp, changed, version, Why(StateWriteReason.ISR_ASKED))


def _response(
    machines: StateMachines, request: AlterIsrRequest, change: Change | ErrorCode | None
) -> AlterIsrResponse:
    response = AlterIsrResponse(
        tp=request.tp,
        error=ErrorCode.NONE,
        leader_epoch=request.leader_epoch,
        number=request.number,
    )
    if isinstance(change, ErrorCode):
        response.error = change
        return response
    state = machines.cluster.states[request.tp]
    if change is not None:
        if (state.leader_epoch, state.isr) == (change.state.leader_epoch, change.state.isr):
            # Written now, or by an earlier attempt whose answer was lost. A replica that has caught up has a
            # usable log, so it is no longer offline.
            for broker in state.isr:
                machines.cluster.failed.pop((request.tp, broker), None)
            machines.batch.add(machines.cluster.partition(request.tp), ())
            if state.leader_epoch != request.leader_epoch:
                response.error = (
                    ErrorCode.FENCED_LEADER_EPOCH
                )  # it has completed a move: LeaderAndIsr follows
        else:
            response.error = ErrorCode.INVALID_UPDATE_VERSION
    response.isr, response.version = state.isr, state.version
    return response


def _refusal(machines: StateMachines, request: AlterIsrRequest, state: PartitionState | None) -> ErrorCode:
    guards, live = machines.ctx.guards, machines.cluster.live
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if guards.broker_epoch and live.get(request.broker) != request.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if request.topic_id and request.topic_id != machines.cluster.topic_ids.get(request.tp.topic):
        return ErrorCode.UNKNOWN_TOPIC_ID
    if request.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if request.leader_epoch > state.leader_epoch:
        # A proposal for a deleted topic of the same name.
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if request.isr != state.isr and guards.partition_version and request.version != state.version:
        return ErrorCode.INVALID_UPDATE_VERSION
    if any(broker in machines.cluster.leaving for broker in request.isr if broker not in state.isr):
        return ErrorCode.INELIGIBLE_REPLICA  # it was removed a moment ago; its last fetches arrived later
    if guards.incarnation_in_isr:
        for broker, epoch in zip(request.isr, request.member_epochs, strict=True):
            if broker not in state.isr and live.get(broker) != epoch:
                return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def drain_isr_notifications(machines: StateMachines, *, update: bool) -> Task:
    """Leaders of older generations write their ISR themselves and leave a notification here."""
    if machines.ctx.generation.isr_through_controller:
        return
    notes = yield Children(keeper_paths.ISR_NOTIFICATIONS, watch=True)
    for path, node in notes.nodes.items():
        for tp in node.value if update else ():
            if tp in machines.cluster.states:
                yield from machines.read_state(tp)
                machines.batch.add(machines.cluster.partition(tp), ())
        yield Delete(path)
    machines.batch.send()
