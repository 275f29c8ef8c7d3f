"""A broker's machine loses power."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.faults.base import Fault, SearchView, Words
from tidelog.faults.damage import DOWN, PAUSED
from tidelog.faults.places import Node
from tidelog.faults.step import Step
from tidelog.faults.targets import Takes, Targets
from tidelog.faults.testbed import Ability, Testbed


class Power(Fault):
    name, verb = "power", "power-off"
    words = Words(
        "a broker's machine loses power; what was not flushed is gone",
        "代理所在机器断电，未刷盘的内容丢失",
    )
    takes = Takes.BROKERS
    leaves, ends = DOWN, (PAUSED,)
    searched = True
    weight = 2
    needs = frozenset((Ability.LINKS,))
    missed = True  # with what it lost it must not lead on (KIP-966)
    heal_rank = 2  # no machine is back at once

    def options(self, view: SearchView) -> list[Step]:
        return [Step(self.verb, (broker,)) for broker in view.running]

    def is_step(self, step: Step, zone_of: Callable[[Node], str], brokers: Sequence[int]) -> bool:
        return step.verb == self.verb and len(step.args) == 1

    def inject(self, bed: Testbed, targets: Targets) -> None:
        for broker in targets.brokers:
            bed.lose_power(broker)
