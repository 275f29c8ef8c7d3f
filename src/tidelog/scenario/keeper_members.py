"""The members of a keeper, and which of them can reach an agreement. Plain rules, no sessions, no network.

A member serves only while it reaches the leading member and that one reaches a majority. A broker that can
reach a serving member is connected to the keeper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidelog.core.types import immutable

Linked = Callable[[Any, Any], bool]
"""Whether two nodes can speak to each other: two members, or a broker and a member."""


@immutable
class KeeperMember:
    name: str
    running: bool
    serves: bool
    """It is the leader or follows it, and the leader has a majority."""
    leads: bool


class Ensemble:
    __slots__ = ("leader", "members", "running", "session_at")

    def __init__(self, members: tuple[str, ...]) -> None:
        self.members = members
        self.running = dict.fromkeys(members, True)
        self.leader: str | None = members[len(members) // 2] if members else None
        self.session_at: dict[int, str] = {}
        """The member that each broker's session is at."""

    def update_leader(self, linked: Linked) -> bool:
        """The topology changed: does the leading member still have a majority, and if not, who has? True if
        there was none, and is one now."""
        had_quorum = self.leader is not None
        if self.leader is None or not self._has_majority(self.leader, linked):
            candidates = [member for member in self.members if self._has_majority(member, linked)]
            self.leader = candidates[0] if candidates else None
        return self.leader is not None and not had_quorum

    def _has_majority(self, member: str, linked: Linked) -> bool:
        if not self.running[member]:
            return False
        peers = [m for m in self.members if self.running[m] and (m == member or linked(member, m))]
        return len(peers) > len(self.members) // 2

    def serving(self, linked: Linked) -> list[str]:
        leader = self.leader
        if leader is None:
            return []
        return [m for m in self.members if self.running[m] and (m == leader or linked(m, leader))]

    def states(self, linked: Linked) -> tuple[KeeperMember, ...]:
        serving = self.serving(linked)
        return tuple(
            KeeperMember(member, self.running[member], member in serving, member == self.leader)
            for member in self.members
        )

    def connect(self, broker: int, zones: Mapping[Any, str], linked: Linked) -> bool:
        """Whether a broker reaches the keeper. Its session stays at its member while that one serves and is
        in reach; then it moves to another, of its own zone if it can."""
        serving = self.serving(linked)
        current = self.session_at.get(broker)
        if current in serving and linked(broker, current):
            return True
        for member in sorted(serving, key=lambda member: zones[member] != zones[broker]):
            if linked(broker, member):
                self.session_at[broker] = member
                return True
        self.session_at.pop(broker, None)
        return False
