"""The state of a cluster as plain data: what the keeper holds, and what every replica holds and believes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tidelog.core.inside import NO_PHASES, ParkedRequest, Phases, RemoteReplica
from tidelog.core.types import PartitionState, TopicPartition, immutable
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.producer import Producer
from tidelog.scenario.keeper_members import KeeperMember

Record = tuple[int, int | None, str | None]
"""(offset, leader epoch or None where batches carry none, value or None for a control record)"""


@immutable
class ReplicaState:
    broker: int
    process: str
    """up, down or paused"""
    role: str
    leo: int
    hw: int
    records: tuple[Record, ...]
    epochs: tuple[tuple[int, int], ...]
    believes: dict[str, Any] | None
    """The leader, epoch and ISR this broker would tell a client; None if it is down or knows nothing."""
    checkpoint: int = 0
    """The high watermark on disk, with which it would restart. Of a process that is down, ``hw`` is this."""
    remote: tuple[RemoteReplica, ...] = ()
    """Of a leader: its followers."""
    parked: tuple[ParkedRequest, ...] = ()
    """Of a leader: the requests that wait."""


@immutable
class PartitionSnapshot:
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[ReplicaState, ...]
    phase: str = ""
    """The partition's state in the controller's machine; empty if no controller is at work."""
    replica_phases: tuple[tuple[int, str], ...] = ()
    """(broker, the state of its replica in the controller's machine)"""
    partition_epoch: int = -1
    """The version of the state in the keeper."""
    elr: tuple[int, ...] = ()
    """Eligible leader replicas, under the rules that track them."""
    last_known_elr: tuple[int, ...] = ()
    recovering: bool = False

    @property
    def eligible(self) -> str:
        """What to add to the ISR in a line of text."""
        last = f", last known leader {_numbers(self.last_known_elr)}" if self.last_known_elr else ""
        return f", ELR [{_numbers(self.elr)}]{last}" if self.elr or last else ""


def partition_snapshot(
    tp: TopicPartition,
    state: PartitionState | None,
    replicas: tuple[ReplicaState, ...],
    phases: Phases = NO_PHASES,
) -> PartitionSnapshot:
    """``state``: what the keeper holds. ``phases``: of the partition and its replicas, in the controller."""
    if state is None:
        return PartitionSnapshot(*tp, -1, -1, (), replicas, *phases)
    return PartitionSnapshot(
        *tp,
        state.leader,
        state.leader_epoch,
        state.isr,
        replicas,
        *phases,
        state.version,
        state.elr,
        state.last_known_elr,
        state.recovering,
    )


@immutable
class BrokerState:
    broker: int
    process: str
    """up, down or paused"""
    registered: bool
    controls: int | None
    """The controller epoch in which it takes itself for the controller; None: it does not. It may be wrong:
    ``Snapshot.controller`` is what the keeper says."""
    keeper_member: str | None
    """The keeper member that its session is at; None: it reaches none that serves."""
    observed: bool = True
    """False: the process runs and has not answered yet, so what only it knows is missing here."""


@immutable
class ClientState:
    name: str
    leaders: tuple[tuple[str, int, int, int], ...]
    """(topic, partition, leader, leader epoch), as its cached metadata say."""


def client_state(name: str, client: Producer | Consumer) -> ClientState:
    leaders = client.metadata.leaders
    return ClientState(name, tuple((*tp, leader, epoch) for tp, (leader, epoch) in leaders.items()))


@immutable
class Snapshot:
    at_ms: int
    controller: int | None
    controller_epoch: int
    live_brokers: tuple[int, ...]
    partitions: tuple[PartitionSnapshot, ...]
    brokers: tuple[BrokerState, ...] = ()
    keeper: tuple[KeeperMember, ...] = ()
    clients: tuple[ClientState, ...] = ()

    @property
    def other_controllers(self) -> tuple[int, ...]:
        """Brokers that take themselves for the controller and are not, according to the keeper."""
        return tuple(b.broker for b in self.brokers if b.controls is not None and b.broker != self.controller)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def partition_line(snapshot: Snapshot, partition: PartitionSnapshot) -> str:
    """What the keeper holds, in one line."""
    leader = "none" if partition.leader < 0 else str(partition.leader)
    controller = "none" if snapshot.controller is None else str(snapshot.controller)
    others = "".join(f", stale controller {broker}" for broker in snapshot.other_controllers)
    return (
        f"{partition.topic}-{partition.partition}: leader {leader}, epoch {partition.leader_epoch}, "
        f"ISR [{_numbers(partition.isr)}]{partition.eligible}; "
        f"controller {controller} (epoch {snapshot.controller_epoch}){others}"
    )


def _numbers(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
