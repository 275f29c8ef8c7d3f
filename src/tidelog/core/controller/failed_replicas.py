"""The controller's side of disks that refuse: which replicas cannot be used, and when to ask for them again.

A broker answers LeaderAndIsr and StopReplica for each partition. Where it says that its log cannot be used,
the replica counts as offline although its broker lives: others lead the partition, the ISR goes on without
it, clients read of it in the metadata. When a disk will be mended cannot be known, so the broker is simply
asked again, after ever longer pauses, with the very request it could not carry out. Its answer is the news:
no broker has to report anything, and a new controller learns all of it from its first requests.
No other answer counts as recovery, or a cluster whose disks are all full would elect without a pause.

Kafka takes a whole log directory offline until the broker is started again; here it is a partition, until
its disk takes it.
"""

from __future__ import annotations

from tidelog.core.controller import topic_deletion
from tidelog.core.controller.state_machines import StateMachines
from tidelog.core.messages import (
    ControlResponse,
    LeaderAndIsrRequest,
    PartitionAssignment,
    StopReplicaRequest,
)
from tidelog.core.types import BrokerId, Millis, TopicPartition
from tidelog.wire.errors import ErrorCode

RETRY_MS_MIN: Millis = 1_000
RETRY_MS_MAX: Millis = 10_000
_CARRIED_OUT = (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)
"""The other errors mean that the request was not for this life of the broker, or not from its controller."""


class FailedReplicas:
    __slots__ = ("_asked", "_machines", "_retry_ms", "_scheduled")

    def __init__(self, machines: StateMachines) -> None:
        self._machines = machines
        self._retry_ms = RETRY_MS_MIN
        self._scheduled = False
        self._asked: dict[BrokerId, int] = {}
        """The request with which each broker was last asked again."""

    # ------------------------------------------------------------ what brokers answer

    def answered(self, broker: BrokerId, told: object, response: ControlResponse, now: Millis) -> None:
        """A broker answered what it was ``told``."""
        if isinstance(told, LeaderAndIsrRequest) and response.error in _CARRIED_OUT:
            errors = response.partition_errors
            if response.error is ErrorCode.UNKNOWN_SERVER_ERROR:
                errors = dict.fromkeys((part.tp for part in told.partitions), response.error)
            if errors:
                self.failed(broker, [part.tp for part in told.partitions if part.tp in errors], now)
            if self._asked.get(broker) == response.request_id:
                self._recovered(broker, [part.tp for part in told.partitions if part.tp not in errors])
        elif isinstance(told, StopReplicaRequest) and response.partition_errors:
            self._schedule(now)

    def failed(self, broker: BrokerId, tps: list[TopicPartition], now: Millis) -> None:
        machines = self._machines
        cluster = machines.cluster
        known = [tp for tp in tps if tp in cluster.assignments]
        news = [tp for tp in known if (tp, broker) not in cluster.failed]
        for tp in news:
            cluster.failed[tp, broker] = None
            machines.ballots.withdraw_from(tp, broker)
        if news:
            machines.submit(lambda: machines.replicas_failed(broker, news))
        self._schedule(now)

    def _recovered(self, broker: BrokerId, tps: list[TopicPartition]) -> None:
        machines = self._machines
        news = [tp for tp in tps if (tp, broker) in machines.cluster.failed]
        for tp in news:
            del machines.cluster.failed[tp, broker]
        if news:
            machines.submit(lambda: machines.replicas_recovered(broker, news))

    # ------------------------------------------------------------ asking again

    def _schedule(self, now: Millis) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._machines.ctx.set_timer(now + self._retry_ms, self._retry)

    def _retry(self, now: Millis) -> None:
        self._scheduled = False
        machines = self._machines
        unerased = topic_deletion.brokers_that_failed(machines)
        if not machines.in_office or not (machines.cluster.failed or unerased):
            self._retry_ms = RETRY_MS_MIN
            return
        self._retry_ms = min(2 * self._retry_ms, RETRY_MS_MAX)
        self._schedule(now)
        self._ask_again()
        # A broker that has not answered yet is busy, or gone: asking it twice would not help.
        idle = [broker for broker in unerased if machines.channels.is_idle(broker)]
        if idle:
            topic_deletion.erase_replicas(machines, machines.cluster.deleting, among=idle)

    def _ask_again(self) -> None:
        cluster, channels = self._machines.cluster, self._machines.channels
        told: dict[BrokerId, list[PartitionAssignment]] = {}
        for tp, broker in cluster.failed:
            if tp in cluster.states and channels.is_idle(broker):
                told.setdefault(broker, []).append(cluster.partition(tp))
        for broker in sorted(told):
            self._asked[broker] = channels.leader_and_isr(broker, tuple(told[broker]))
