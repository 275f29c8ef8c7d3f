"""The keeper loses a member, or its majority."""

from __future__ import annotations

from random import Random
from typing import Final

from tidelog.faults.base import Absence, Fault, Grounds, SearchView, Words
from tidelog.faults.damage import KEEPER_DOWN
from tidelog.faults.places import KEEPER
from tidelog.faults.step import Step
from tidelog.faults.targets import Takes, Targets
from tidelog.faults.testbed import Ability, Testbed

MEMBERS: Final = ("keeper-1", "keeper-2", "keeper-3")
_MAJORITY_SHARE: Final = 0.6
"""The share of losses in trials that take the majority; the others take one member of three."""


class Keeper(Fault):
    name, verb = "keeper", "keeper-stop"
    words = Words("a member of the coordination service stops", "协调服务的一个成员停止")
    takes = Takes.MEMBER
    leaves = KEEPER_DOWN
    searched = True
    weight = 2
    needs = frozenset((Ability.LINKS,))
    away = Absence.KEEPER
    heal_rank = 0  # without it no broker can start

    def options(self, view: SearchView) -> list[Step]:
        return [Step(self.verb, (member,)) for member in view.keepers_up]

    def draw(self, dice: Random, group: list[int], grounds: Grounds) -> tuple[str, ...]:
        return (KEEPER,) if dice.random() < _MAJORITY_SHARE else (dice.choice(MEMBERS),)

    def inject(self, bed: Testbed, targets: Targets) -> None:
        for member in targets.members:
            bed.keeper_member(member, running=False)
        if not targets.members:
            bed.keeper(running=False)
