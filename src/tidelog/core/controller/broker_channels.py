"""The controller's channel to each broker: requests in order, one in flight, repeated until answered.

Order matters more than speed here: a broker must see UpdateMetadata before the LeaderAndIsr that relies on
it, and never an old request after a newer one. A channel is closed when its broker leaves: queued requests
were meant for the old registration, and their callers get ``LINE_CLOSED``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from tidelog.core.context import Context
from tidelog.core.keeper_port import StoredNode
from tidelog.core.messages import (
    ControlHeader,
    ControlResponse,
    LeaderAndIsrRequest,
    PartitionAssignment,
    StopReplicaRequest,
    UpdateMetadataRequest,
    VoteRequest,
)
from tidelog.core.types import (
    LEADER_DURING_DELETION,
    BrokerEndpoint,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
)
from tidelog.wire.errors import ErrorCode

Request = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest | VoteRequest

Then = Callable[[BrokerId, ControlResponse], None]
"""Called exactly once: with the answer to a request, or with ``LINE_CLOSED``."""
LINE_CLOSED = ControlResponse(request_id=-1, error=ErrorCode.NETWORK_EXCEPTION)
PARTITIONS_PER_REQUEST = 100
"""Of one LeaderAndIsr: a broker creates the logs of new partitions without serving others meanwhile."""
NOTHING_TO_TELL = ControlResponse(request_id=-1, error=ErrorCode.NONE)


class _Queued:
    __slots__ = ("request", "then")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.then: list[Then] = []

    def answer(self, broker: BrokerId, response: ControlResponse) -> None:
        for then in self.then:
            then(broker, response)


class ControlChannels:
    __slots__ = (
        "_ctx",
        "_last_id",
        "_queues",
        "controller_epoch",
        "endpoints",
        "incarnations",
        "live_brokers_told",
    )

    def __init__(self, ctx: Context, controller_epoch: ControllerEpoch) -> None:
        self._ctx = ctx
        self._queues: dict[BrokerId, deque[_Queued]] = {}
        self._last_id = controller_epoch * 1_000_000  # unique across controllers: late answers match nothing
        self.controller_epoch = controller_epoch
        self.incarnations: dict[BrokerId, BrokerEpoch] = {}
        """The broker epoch of each broker with an open channel."""
        self.endpoints: dict[BrokerId, BrokerEndpoint] = {}
        self.live_brokers_told = True
        """Whether metadata was sent since the last channel was opened or closed."""

    def open(self, broker: BrokerId, registration: StoredNode) -> None:
        self._queues[broker] = deque()
        self.incarnations[broker] = BrokerEpoch(registration.stat.created)
        self.endpoints[broker] = registration.value
        self.live_brokers_told = False

    def close(self, broker: BrokerId) -> None:
        unanswered = self._queues.pop(broker, ())
        self.incarnations.pop(broker, None)
        self.endpoints.pop(broker, None)
        self.live_brokers_told = False
        for queued in unanswered:
            queued.answer(broker, LINE_CLOSED)

    def close_all(self) -> None:
        for broker in list(self._queues):
            self.close(broker)

    def answered(self, broker: BrokerId, response: ControlResponse) -> Request | None:
        """Returns the answered request, or None if it was not pending."""
        queue = self._queues.get(broker)
        if not queue or queue[0].request.request_id != response.request_id:
            return None
        done = queue.popleft()
        if queue:
            self._ctx.send(broker, queue[0].request)
        done.answer(broker, response)
        return done.request

    def connected(self, broker: BrokerId) -> None:
        """The connection is new: the request in flight may have been lost."""
        queue = self._queues.get(broker)
        if queue:
            self._ctx.send(broker, queue[0].request)

    def when_answered(self, broker: BrokerId, then: Then) -> None:
        """Call ``then`` when the broker has answered everything that is queued now."""
        queue = self._queues.get(broker)
        if queue:
            queue[-1].then.append(then)
        else:
            then(broker, LINE_CLOSED if queue is None else NOTHING_TO_TELL)

    def is_idle(self, broker: BrokerId) -> bool:
        """Whether the channel is open and has no unanswered request."""
        queue = self._queues.get(broker)
        return queue is not None and not queue

    # ------------------------------------------------------------ the four requests

    def leader_and_isr(self, broker: BrokerId, partitions: tuple[PartitionAssignment, ...]) -> int:
        """Returns the number of the request, −1 if there is no channel to the broker."""
        if broker not in self._queues:
            return -1
        request = LeaderAndIsrRequest(**self._header(broker), partitions=partitions)
        self._enqueue(broker, request)
        return request.request_id

    def update_metadata(self, broker: BrokerId, partitions: tuple[PartitionAssignment, ...]) -> None:
        if broker in self._queues:
            self.live_brokers_told = True
            request = UpdateMetadataRequest(
                **self._header(broker),
                live_brokers=dict(self.incarnations),
                endpoints=dict(self.endpoints),
                partitions=partitions,
            )
            self._enqueue(broker, request)

    def stop_replica(self, broker: BrokerId, partitions: tuple[TopicPartition, ...], *, delete: bool) -> None:
        if broker in self._queues:
            request = StopReplicaRequest(**self._header(broker), partitions=partitions, delete=delete)
            self._enqueue(broker, request)

    def delete_replica(self, broker: BrokerId, partitions: tuple[TopicPartition, ...], then: Then) -> None:
        self.stop_replica(broker, partitions, delete=True)
        self.when_answered(broker, then)

    def vote(self, broker: BrokerId, tp: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        if broker in self._queues:
            self._enqueue(broker, VoteRequest(**self._header(broker), tp=tp, leader_epoch=leader_epoch))

    def _header(self, broker: BrokerId) -> ControlHeader:
        self._last_id += 1
        return {
            "controller": self._ctx.broker,
            "controller_epoch": self.controller_epoch,
            "broker_epoch": self.incarnations[broker],
            "request_id": self._last_id,
        }

    def _enqueue(self, broker: BrokerId, request: Request) -> None:
        queue = self._queues[broker]
        queue.append(_Queued(request))
        if len(queue) == 1:
            self._ctx.send(broker, request)


class RequestBatch:
    """Collects the changes of one pass of a state machine, then sends them: LeaderAndIsr to the affected
    replicas, UpdateMetadata to all brokers."""

    __slots__ = ("_changed", "_channels", "_leader_and_isr")

    def __init__(self, channels: ControlChannels) -> None:
        self._channels = channels
        self._leader_and_isr: dict[BrokerId, dict[TopicPartition, PartitionAssignment]] = {}
        self._changed: dict[TopicPartition, PartitionAssignment] = {}

    def add(self, partition: PartitionAssignment, recipients: tuple[BrokerId, ...]) -> None:
        for broker in recipients:
            self._leader_and_isr.setdefault(broker, {})[partition.tp] = partition
        self._changed[partition.tp] = partition

    def add_deleted(self, partition: PartitionAssignment) -> None:
        """All brokers must forget this partition."""
        epoch = self._channels.controller_epoch
        state = replace(partition.state, leader=LEADER_DURING_DELETION, controller_epoch=epoch)
        self._changed[partition.tp] = PartitionAssignment(
            tp=partition.tp, replicas=partition.replicas, state=state
        )

    def send(self) -> None:
        if not self._changed:
            return
        for broker in sorted(self._leader_and_isr):
            partitions = tuple(self._leader_and_isr[broker].values())
            for start in range(0, len(partitions), PARTITIONS_PER_REQUEST):
                self._channels.leader_and_isr(broker, partitions[start : start + PARTITIONS_PER_REQUEST])
        changed = tuple(self._changed.values())
        for broker in sorted(self._channels.incarnations):
            self._channels.update_metadata(broker, changed)
        self._leader_and_isr = {}
        self._changed = {}
