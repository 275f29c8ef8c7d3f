"""Replica placement of new partitions: round-robin leaders, shifted followers, separate racks.

The leaders of consecutive partitions go round the brokers, and the followers of each lap are shifted by one
against those of the lap before. So leadership is even, and the followers of the partitions that a dead broker
led are spread over all other brokers, which share its load. If every broker has a rack, neighbours in the
round come from different racks, and a follower goes to a rack with the fewest replicas so far: the replicas
use as many racks as possible.

Pure arithmetic: where the round begins is an argument, and the same arguments give the same placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.core.types import BrokerId


def place_replicas(
    racks: Mapping[BrokerId, str | None], partitions: Iterable[int], replication_factor: int, start: int
) -> dict[int, tuple[BrokerId, ...]]:
    """Assign ``replication_factor`` of the brokers (the keys of ``racks``) to each partition. The first
    replica is the preferred leader. ``start`` is the position of partition 0 in the round."""
    aware, order = _all_named(racks), broker_round(racks)
    first_lap, first_place = divmod(start, len(order))
    assignment = {}
    for partition in partitions:
        # Laps are counted from partition 0: within a lap every broker leads once and, because all followers
        # are shifted equally, follows equally often.
        lap, place = divmod(partition, len(order))
        assignment[partition] = _replicas(
            order, racks if aware else None, replication_factor, first_place + place, first_lap + lap
        )
    return assignment


def _replicas(
    order: list[BrokerId], racks: Mapping[BrokerId, str | None] | None, count: int, place: int, shift: int
) -> tuple[BrokerId, ...]:
    place %= len(order)
    others = order[place + 1 :] + order[:place]
    if others:
        shift %= len(others)
        others = others[shift:] + others[:shift]
    if racks is None:
        return (order[place], *others[: count - 1])
    chosen = [order[place]]
    replicas_in = {racks[order[place]]: 1}
    while len(chosen) < count:
        follower = min(others, key=lambda broker: replicas_in.get(racks[broker], 0))  # on a tie, the first
        others.remove(follower)
        chosen.append(follower)
        replicas_in[racks[follower]] = replicas_in.get(racks[follower], 0) + 1
    return tuple(chosen)


def broker_round(racks: Mapping[BrokerId, str | None]) -> list[BrokerId]:
    """The brokers in round-robin order. With racks, neighbours are in different racks as far as possible: one
    broker of each rack, then the next of each, and so on."""
    if not _all_named(racks):
        return sorted(racks)
    members: dict[str, list[BrokerId]] = {}
    for broker in sorted(racks):
        members.setdefault(racks[broker] or "", []).append(broker)
    longest = max(map(len, members.values()), default=0)
    return [
        members[rack][depth]
        for depth in range(longest)
        for rack in sorted(members)
        if depth < len(members[rack])
    ]


def _all_named(racks: Mapping[BrokerId, str | None]) -> bool:
    return all(rack is not None for rack in racks.values())
