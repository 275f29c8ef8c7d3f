"""Enough replicas of a topic crash at once that fewer than its min.insync.replicas are left.

The survivors are in sync, but too few: a leader refuses acks=all until a replica is back. A minimum of 1 has
no such state: below it there is no leader to refuse, so searches and trials refuse the fault.
"""

from __future__ import annotations

from itertools import combinations
from random import Random

from tidelog.faults.base import Grounds, SearchView, Words
from tidelog.faults.kill import Kill
from tidelog.faults.step import Step


class BelowMinIsr(Kill):
    name, alias, verb = "below_min_isr", "", "below-min-isr"
    words = Words(
        "so many brokers die at once that a topic is below its min.insync.replicas until one is back",
        "多个代理同时宕机，主题的同步副本数低于 min.insync.replicas，直到有代理恢复",
    )
    says = Words(
        "Crash of {list}: fewer replicas than min.insync.replicas are left.",
        "broker {list} 宕机：剩下的副本少于 min.insync.replicas。",
    )
    min_insync_min = 2
    by_default = False  # the schedules of `all` stay as they were
    missed = True  # the controller removes a broker from the ISR when its session has expired
    exceeds_down_max = True

    def options(self, view: SearchView) -> list[Step]:
        running = [broker for broker in view.replicas if broker in view.running]
        return [Step(self.verb, tuple(group)) for group in _too_many(running, view.min_insync)]

    def groups(self, grounds: Grounds) -> list[list[int]]:
        """A partition may be anywhere: of all brokers together, fewer than the minimum survive."""
        return _too_many(list(grounds.zones), grounds.min_insync)

    def duration_ms(self, dice: Random, session_ms: int) -> int:
        """At least as long below the minimum as it took to get there."""
        return dice.randrange(2 * session_ms, 4 * session_ms)


def _too_many(running: list[int], min_insync: int) -> list[list[int]]:
    """All groups without which one broker too few runs. None if it is so already."""
    if not BelowMinIsr.min_insync_min <= min_insync <= len(running):
        return []
    survivors = combinations(running, min_insync - 1)
    return [[broker for broker in running if broker not in left] for left in survivors]
