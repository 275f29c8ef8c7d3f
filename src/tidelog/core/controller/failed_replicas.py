"""The controller's handling of failed disks: which replicas are offline, and when to retry them.

A broker answers LeaderAndIsr and StopReplica for each partition. If it cannot use a log, the replica counts
as offline although its broker is alive: other replicas lead, the ISR excludes it, clients see it in the
metadata. The controller repeats the failed request after growing pauses, because it cannot know when a disk
is repaired. The answer tells whether the replica is back: brokers need not report anything, and a new
controller learns all of it from its first requests. No other answer counts as recovery; otherwise a cluster
with only full disks would elect without a pause.

Kafka takes a whole log directory offline until the broker is restarted; here it is one partition, until its
disk works again.
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
"""Other errors mean that the request was for an old registration of the broker, or from an old controller."""


class FailedReplicas:
    __slots__ = ("_asked", "_machines", "_retry_ms", "_scheduled")

    def __init__(self, machines: StateMachines) -> None:
        self._machines = machines
        self._retry_ms = RETRY_MS_MIN
        self._scheduled = False
        self._asked: dict[BrokerId, int] = {}
        """The last repeated request to each broker."""

    # ------------------------------------------------------------ answers from brokers

    def answered(self, broker: BrokerId, request: object, response: ControlResponse, now: Millis) -> None:
        """A broker answered the request ``request``."""
        if isinstance(request, LeaderAndIsrRequest) and response.error in _CARRIED_OUT:
            errors = response.partition_errors
            if response.error is ErrorCode.UNKNOWN_SERVER_ERROR:
                errors = dict.fromkeys((part.tp for part in request.partitions), response.error)
            if errors:
                self.failed(broker, [part.tp for part in request.partitions if part.tp in errors], now)
            if self._asked.get(broker) == response.request_id:
                self._recovered(broker, [part.tp for part in request.partitions if part.tp not in errors])
        elif isinstance(request, StopReplicaRequest) and response.partition_errors:
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

    # ------------------------------------------------------------ retries

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
        # A broker that has not answered yet is busy or down: a second request would not help.
        idle = [broker for broker in unerased if machines.channels.is_idle(broker)]
        if idle:
            topic_deletion.erase_replicas(machines, machines.cluster.deleting, among=idle)

    def _ask_again(self) -> None:
        cluster, channels = self._machines.cluster, self._machines.channels
        by_broker: dict[BrokerId, list[PartitionAssignment]] = {}
        for tp, broker in cluster.failed:
            if tp in cluster.states and channels.is_idle(broker):
                by_broker.setdefault(broker, []).append(cluster.partition(tp))
        for broker in sorted(by_broker):
            self._asked[broker] = channels.leader_and_isr(broker, tuple(by_broker[broker]))
