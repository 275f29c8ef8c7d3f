"""The state of a cluster as plain data: what the keeper holds, and what every replica holds and believes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tidelog.core.values import immutable

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


@immutable
class PartitionSnapshot:
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[ReplicaState, ...]


@immutable
class Snapshot:
    at_ms: int
    controller: int | None
    controller_epoch: int
    live_brokers: tuple[int, ...]
    partitions: tuple[PartitionSnapshot, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def partition_line(snapshot: Snapshot, partition: PartitionSnapshot) -> str:
    """What the keeper holds, in one line."""
    leader = "none" if partition.leader < 0 else str(partition.leader)
    controller = "none" if snapshot.controller is None else str(snapshot.controller)
    isr = ",".join(map(str, partition.isr))
    return (
        f"{partition.topic}-{partition.partition}: leader {leader}, epoch {partition.leader_epoch}, "
        f"ISR [{isr}]; controller {controller} (epoch {snapshot.controller_epoch})"
    )
