"""Who leads? Kafka's election strategies as arithmetic on four lists (M8).

Each takes the assignment (the order of preference) and answers ``(leader, isr)``, or None when no replica
may lead.
"""

from __future__ import annotations

from collections.abc import Collection

from tidelog.core.types import BrokerId, PartitionState

Brokers = tuple[BrokerId, ...]
Choice = tuple[BrokerId, Brokers] | None


def first_leader(assignment: Brokers, live: Collection[BrokerId]) -> Choice:
    """A new partition: the first live replica leads, all live replicas are in sync (they are all empty)."""
    alive = tuple(broker for broker in assignment if broker in live)
    return (alive[0], alive) if alive else None


def offline_leader(
    assignment: Brokers, state: PartitionState, live: Collection[BrokerId], *, unclean: bool
) -> Choice:
    """The leader is gone: the first *assigned* replica that is alive and in sync; failing that, and only if
    the topic allows to lose records for availability, the first that is alive."""
    isr = tuple(broker for broker in state.isr if broker in live)
    for broker in assignment:
        if broker in isr:
            return broker, isr
    if unclean:
        for broker in assignment:
            if broker in live:
                return broker, (broker,)
    return None


def preferred_leader(assignment: Brokers, state: PartitionState, live: Collection[BrokerId]) -> Choice:
    """Back to the first assigned replica, if it is alive and in sync. The ISR stays as it is."""
    preferred = assignment[0]
    return (preferred, state.isr) if preferred in live and preferred in state.isr else None


def shutdown_leader(
    assignment: Brokers, state: PartitionState, live: Collection[BrokerId], leaving: Collection[BrokerId]
) -> Choice:
    """A broker announced that it leaves: the first in-sync replica that stays."""
    isr = tuple(broker for broker in state.isr if broker not in leaving)
    for broker in assignment:
        if broker in isr and broker in live:
            return broker, isr
    return None
