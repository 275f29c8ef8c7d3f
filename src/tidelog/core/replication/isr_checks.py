"""The checks of a broker's leaders for followers that lag.

One thread of a broker checks all its partitions. Where leaders write their ISR to the keeper themselves, it
waits for the keeper's answer: meanwhile no other partition is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.types import Millis

if TYPE_CHECKING:
    from tidelog.core.replication.leader import LeaderRole


class IsrChecks:
    __slots__ = ("_due", "_waits_for")

    def __init__(self) -> None:
        self._waits_for: LeaderRole | None = None
        self._due: dict[LeaderRole, None] = {}

    def check(self, role: LeaderRole, now: Millis) -> None:
        if self._waits_for is not None:
            self._due[role] = None
        elif role.is_current and role.propose_without_lagging(now) and role.is_locked:
            self._waits_for = role

    def go_on(self, role: LeaderRole, now: Millis) -> None:
        """The keeper has answered this leader: the partitions that were due meanwhile are next."""
        if self._waits_for is role:
            self.give_up(role)
            due, self._due = self._due, {}
            for each in due:
                self.check(each, now)

    def give_up(self, role: LeaderRole) -> None:
        """This leader leads no longer. The others go on at the next check."""
        self._due.pop(role, None)
        if self._waits_for is role:
            self._waits_for = None
