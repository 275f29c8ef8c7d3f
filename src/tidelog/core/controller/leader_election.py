"""Leader election: Kafka's strategies as arithmetic on four lists.

Each takes the assignment (the order of preference) and returns the leader, the new ISR and the kind of
election; or None when no replica may lead.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tidelog.core.reasons import ElectionKind
from tidelog.core.types import BrokerId, PartitionState

Brokers = tuple[BrokerId, ...]


class LeaderChoice(NamedTuple):
    leader: BrokerId
    isr: Brokers
    kind: ElectionKind | None
    """None: the leader stays, only the ISR changes."""


def first_leader(assignment: Brokers, live: Collection[BrokerId]) -> tuple[BrokerId, Brokers] | None:
    """A new partition: the first live replica leads, all live replicas are in sync (they are all empty)."""
    alive = tuple(broker for broker in assignment if broker in live)
    return (alive[0], alive) if alive else None


def offline_leader(
    assignment: Brokers, state: PartitionState, live: Collection[BrokerId], *, unclean: bool
) -> LeaderChoice | None:
    """The leader is gone: the first *assigned* replica that is alive and in sync; otherwise, and only if the
    topic allows unclean elections, the first that is alive."""
    isr = tuple(broker for broker in state.isr if broker in live)
    for broker in assignment:
        if broker in isr:
            return LeaderChoice(broker, isr, ElectionKind.CLEAN)
    if unclean:
        for broker in assignment:
            if broker in live:
                return LeaderChoice(broker, (broker,), ElectionKind.UNCLEAN)
    return None


def preferred_leader(
    assignment: Brokers, state: PartitionState, live: Collection[BrokerId]
) -> LeaderChoice | None:
    """Back to the first assigned replica, if it is alive and in sync. The ISR stays as it is."""
    preferred = assignment[0]
    if preferred in live and preferred in state.isr:
        return LeaderChoice(preferred, state.isr, ElectionKind.PREFERRED)
    return None


def reassigned_leader(
    target: Brokers, state: PartitionState, live: Collection[BrokerId]
) -> LeaderChoice | None:
    """Some replicas are removed, and ``state.isr`` is without them. The leader stays if it can; otherwise the
    first replica of the target that is alive and in sync."""
    if state.leader in target and state.leader in live and state.leader in state.isr:
        return LeaderChoice(state.leader, state.isr, None)
    for broker in target:
        if broker in live and broker in state.isr:
            return LeaderChoice(broker, state.isr, ElectionKind.REASSIGNED)
    return None


def shutdown_leader(
    assignment: Brokers, state: PartitionState, live: Collection[BrokerId], leaving: Collection[BrokerId]
) -> LeaderChoice | None:
    """A broker is shutting down: the first in-sync replica on another broker."""
    isr = tuple(broker for broker in state.isr if broker not in leaving)
    for broker in assignment:
        if broker in isr and broker in live:
            return LeaderChoice(broker, isr, ElectionKind.CONTROLLED_SHUTDOWN)
    return None
