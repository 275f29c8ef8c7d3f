"""A broker's clock is wrong."""

from __future__ import annotations

from random import Random

from tidelog.faults.base import Fault, Grounds, Words
from tidelog.faults.damage import WRONG_CLOCK
from tidelog.faults.targets import Targets
from tidelog.faults.testbed import Testbed


class Clock(Fault):
    name = "clock"
    words = Words("a broker starts with a wrong clock", "代理以错误的时钟启动")
    leaves = WRONG_CLOCK
    weight = 1
    has_amount = True

    def draw(self, dice: Random, group: list[int], grounds: Grounds) -> tuple[str, ...]:
        return (str(group[0]), f"{dice.choice((-3_600_000, -30_000, 30_000, 3_600_000)):+}ms")

    def inject(self, bed: Testbed, targets: Targets) -> None:
        bed.set_clock(targets.brokers[0], targets.ms)
