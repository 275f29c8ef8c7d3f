"""Requests that only the active controller can serve: each is a task, and each is answered.

Some requests come by the thousand, one for each partition: when a broker with many replicas has caught up, or
leadership returns to it. Consecutive requests of one kind in the queue are served together, with one write
and one message to each broker. They never overtake another request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.core.context import Context
from tidelog.core.controller import isr_changes, leader_moves, reassignment, topic_creation, topic_deletion
from tidelog.core.controller.state_machines import PARTITIONS_PER_WRITE, StateMachines
from tidelog.core.effects import ReplyTo
from tidelog.core.keeper_tasks import Job, Procedure, Task, TaskQueue
from tidelog.core.messages import (
    AlterIsrRequest,
    AlterIsrResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    Message,
    RelieveReplicaRequest,
    RelieveReplicaResponse,
)
from tidelog.core.topic_messages import (
    AlterReassignmentRequest,
    AlterReassignmentResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    ListReassignmentsRequest,
    ListReassignmentsResponse,
)
from tidelog.core.types import TopicPartition
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.core.controller.controller import Controller

_Waiting = deque[tuple[Any, ReplyTo]]


class _Together:
    """Consecutive requests of one kind, served together."""

    __slots__ = ("job", "kind", "waiting")

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.waiting: _Waiting = deque()
        self.job: Job | None = None


class ControllerRequests:
    __slots__ = ("_controller", "_ctx", "_joined", "_tasks")

    def __init__(self, controller: Controller, ctx: Context, tasks: TaskQueue) -> None:
        self._controller = controller
        self._ctx = ctx
        self._tasks = tasks
        self._joined: _Together | None = None
        """The group that the next request of its kind may join, until it is served."""

    def asked(self, request: Message, reply_to: ReplyTo) -> None:
        if type(request) in _SERVED_TOGETHER:
            self._join(request, reply_to)
            return
        _, refuse = _SERVED[type(request)]
        self._tasks.submit(
            lambda: self._serve(request, reply_to),
            abandoned=lambda: self._ctx.reply(reply_to, refuse(request)),
        )

    def _serve(self, request: Message, reply_to: ReplyTo) -> Task:
        procedure, refuse = _SERVED[type(request)]
        machines = self._controller.machines
        if machines is None:
            self._ctx.reply(reply_to, refuse(request))
            return
        response = yield from procedure(machines, request)
        if isinstance(request, _TOLD_HERE_FIRST):
            broker = self._ctx.broker
            machines.channels.when_answered(broker, lambda *_: self._ctx.reply(reply_to, response))
        else:
            self._ctx.reply(reply_to, response)

    # ------------------------------------------------------------ groups of requests

    def _join(self, request: Message, reply_to: ReplyTo) -> None:
        joined = self._joined
        if joined is not None and joined.kind is type(request) and self._tasks.waits_last(joined.job):
            joined.waiting.append((request, reply_to))
            return
        self._joined = joined = _Together(type(request))
        joined.waiting.append((request, reply_to))
        job = self._tasks.submit(lambda: self._serve_together(joined), abandoned=lambda: self._refuse(joined))
        if self._joined is joined:
            joined.job = job  # until it is served: the job refers to the group, and a cycle stays in memory

    def _serve_together(self, joined: _Together) -> Task:
        if self._joined is joined:
            self._joined = None
        joined.job = None
        procedure, _ = _SERVED_TOGETHER[joined.kind]
        while joined.waiting:
            machines = self._controller.machines
            if machines is None:
                self._refuse(joined)
                return
            responses = yield from procedure(machines, _of_different_partitions(joined.waiting))
            for response in responses:
                _, reply_to = joined.waiting.popleft()
                self._ctx.reply(reply_to, response)

    def _refuse(self, joined: _Together) -> None:
        _, refuse = _SERVED_TOGETHER[joined.kind]
        while joined.waiting:
            request, reply_to = joined.waiting.popleft()
            self._ctx.reply(reply_to, refuse(request))


def _of_different_partitions(waiting: _Waiting) -> list[Any]:
    """The first requests, as many as fit one write, with at most one per partition."""
    some: dict[TopicPartition, Any] = {}
    for request, _ in waiting:
        if request.tp in some or len(some) == PARTITIONS_PER_WRITE:
            break
        some[request.tp] = request
    return list(some.values())


_NOT_CONTROLLER = ErrorCode.NOT_CONTROLLER
_MISDIRECTED = "This is not the correct controller for this cluster."

_Refuse = Callable[[Any], Message]
_SERVED: dict[type, tuple[Callable[[StateMachines, Any], Procedure[Any]], _Refuse]] = {
    ControlledShutdownRequest: (
        leader_moves.controlled_shutdown,
        lambda _: ControlledShutdownResponse(error=_NOT_CONTROLLER),
    ),
    RelieveReplicaRequest: (
        leader_moves.relieve_replica,
        lambda r: RelieveReplicaResponse(tp=r.tp, error=_NOT_CONTROLLER),
    ),
    CreateTopicRequest: (
        topic_creation.create_topic,
        lambda r: CreateTopicResponse(topic=r.topic, error=_NOT_CONTROLLER, message=_MISDIRECTED),
    ),
    CreatePartitionsRequest: (
        topic_creation.create_partitions,
        lambda r: CreatePartitionsResponse(topic=r.topic, error=_NOT_CONTROLLER, message=_MISDIRECTED),
    ),
    DeleteTopicRequest: (
        topic_deletion.delete_topic,
        lambda r: DeleteTopicResponse(topic=r.topic, error=_NOT_CONTROLLER, message=_MISDIRECTED),
    ),
    AlterReassignmentRequest: (
        reassignment.alter_reassignment,
        lambda r: AlterReassignmentResponse(tp=r.tp, error=_NOT_CONTROLLER, message=_MISDIRECTED),
    ),
    ListReassignmentsRequest: (
        reassignment.list_reassignments,
        lambda _: ListReassignmentsResponse(error=_NOT_CONTROLLER),
    ),
}
"""The handler of each request, and the answer of a broker that is not the controller."""

_SERVED_TOGETHER: dict[
    type, tuple[Callable[[StateMachines, Sequence[Any]], Procedure[Sequence[Message]]], _Refuse]
] = {
    AlterIsrRequest: (
        isr_changes.alter_isrs,
        lambda r: AlterIsrResponse(
            tp=r.tp, error=_NOT_CONTROLLER, leader_epoch=r.leader_epoch, number=r.number
        ),
    ),
    ElectLeadersRequest: (
        leader_moves.elect_leaders,
        lambda r: ElectLeadersResponse(tp=r.tp, error=_NOT_CONTROLLER),
    ),
}
"""The same for several requests of a kind; the answers are in the order of the requests."""

_TOLD_HERE_FIRST = (CreateTopicRequest, CreatePartitionsRequest, DeleteTopicRequest)
"""Answered when the controller's own broker has the new metadata: a client that asks it next sees the
change."""
