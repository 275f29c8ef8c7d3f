"""Links are slow."""

from __future__ import annotations

from random import Random

from tidelog.faults.base import Fault, Grounds, Words
from tidelog.faults.damage import DELAYED
from tidelog.faults.targets import Takes, Targets
from tidelog.faults.testbed import Ability, Testbed


class Delay(Fault):
    name = verb = "delay"
    words = Words("what a broker sends takes longer", "代理发出的消息延迟增大")
    takes = Takes.DELAY
    leaves = DELAYED
    weight = 1
    needs = frozenset((Ability.LINKS,))
    has_amount = True

    def draw(self, dice: Random, group: list[int], grounds: Grounds) -> tuple[str, ...]:
        links = [f"{group[0]}>{other}" for other in grounds.zones if other != group[0]]
        return (*links, f"{dice.choice((20, 100, 400))}ms")

    def inject(self, bed: Testbed, targets: Targets) -> None:
        bed.delay(targets.links, targets.ms)
