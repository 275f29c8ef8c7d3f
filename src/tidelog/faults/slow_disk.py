"""A broker's disk is slow."""

from __future__ import annotations

from random import Random

from tidelog.faults.base import Fault, Grounds, Words
from tidelog.faults.damage import DISK_SLOW
from tidelog.faults.targets import Targets
from tidelog.faults.testbed import Ability, Testbed


class SlowDisk(Fault):
    name = "slow"
    words = Words("a broker's disk takes long to sync", "代理的磁盘刷盘很慢")
    leaves = DISK_SLOW
    weight = 1
    needs = frozenset((Ability.SLOW_DISK,))
    has_amount = True

    def draw(self, dice: Random, group: list[int], grounds: Grounds) -> tuple[str, ...]:
        return (str(group[0]), f"{dice.choice((50, 300, 1_000))}ms")

    def inject(self, bed: Testbed, targets: Targets) -> None:
        bed.slow_disk(targets.brokers[0], targets.ms)
