"""A whole zone is cut off."""

from __future__ import annotations

from random import Random
from typing import Final

from tidelog.faults.base import Fault, Grounds, SearchView, Words
from tidelog.faults.damage import CUT
from tidelog.faults.step import Step
from tidelog.faults.targets import Takes, Targets
from tidelog.faults.testbed import Ability, Testbed

ISOLATE: Final = "isolate"


class Zone(Fault):
    name, verb = "zone", ISOLATE
    words = Words("a whole zone is cut off from the others", "整个可用区与其他可用区断开")
    takes = Takes.ZONE
    leaves = CUT
    searched = True
    covered_by = ("cut",)
    weight = 2
    needs = frozenset((Ability.LINKS,))

    def options(self, view: SearchView) -> list[Step]:
        return [] if view.links_cut else [Step(self.verb, (zone,)) for zone in view.zones]

    def groups(self, grounds: Grounds) -> list[list[int]]:
        zones = dict.fromkeys(grounds.zones.values())
        return [[b for b, zone in grounds.zones.items() if zone == wanted] for wanted in zones]

    def draw(self, dice: Random, group: list[int], grounds: Grounds) -> tuple[str, ...]:
        return (grounds.zones[group[0]],)

    def inject(self, bed: Testbed, targets: Targets) -> None:
        bed.cut(bed.border(targets.zone))
