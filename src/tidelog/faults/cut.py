"""Links are cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tidelog.faults.base import Fault, Grounds, SearchView, Words
from tidelog.faults.damage import CUT
from tidelog.faults.places import KEEPER, Node
from tidelog.faults.step import Sides, Step
from tidelog.faults.targets import Takes, Targets
from tidelog.faults.testbed import Ability, Testbed
from tidelog.faults.zone import ISOLATE


class Cut(Fault):
    name = verb = "cut"
    words = Words(
        "a link between two zones, or of one zone to all others, is cut",
        "两个可用区之间，或一个可用区与其他所有可用区之间的链路中断",
    )
    takes = Takes.SIDES
    leaves = CUT
    searched = True
    weight = 3
    needs = frozenset((Ability.LINKS,))

    def options(self, view: SearchView) -> list[Step]:
        """A zone that is cut off, or two zones that are cut from each other."""
        if view.links_cut:
            return []
        zones = view.zones
        pairs = [(a, b) for number, a in enumerate(zones) for b in zones[number + 1 :]]
        return [
            *(Step(ISOLATE, (zone,)) for zone in zones),
            *(Step(self.verb, (Sides((a,), (b,)),)) for a, b in pairs),
        ]

    def is_step(self, step: Step, zone_of: Callable[[Node], str], brokers: Sequence[int]) -> bool:
        return step.verb in (self.verb, ISOLATE)

    def draw(self, dice: Random, group: list[int], grounds: Grounds) -> tuple[str, ...]:
        """A broker from all others and the keeper, from the others only, or from the keeper only; sometimes
        in one direction only."""
        broker = group[0]
        others = [str(other) for other in grounds.zones if other != broker]
        peers = dice.choice(([*others, KEEPER], others, [KEEPER]))
        away = [f"{broker}>{peer}" for peer in peers]
        back = [f"{peer}>{broker}" for peer in peers]
        return tuple(dice.choice(((*away, *back), (*away, *back), away, back)))

    def inject(self, bed: Testbed, targets: Targets) -> None:
        bed.cut(targets.links)
