"""An operator asks for the preferred leader."""

from __future__ import annotations

from random import Random

from tidelog.faults.base import Absence, Fault, Grounds, SearchView, Words
from tidelog.faults.step import Step
from tidelog.faults.targets import Moot, Targets
from tidelog.faults.testbed import Testbed


class Elect(Fault):
    name, verb = "elect", "elect-preferred"
    words = Words("an operator asks for the preferred leader", "运维人员要求选举首选领导者")
    searched = True
    weight = 1
    away = Absence.NOTHING

    def options(self, view: SearchView) -> list[Step]:
        return [Step(self.verb)]

    def duration_ms(self, dice: Random, session_ms: int) -> int:
        return 0

    def draw(self, dice: Random, group: list[int], grounds: Grounds) -> tuple[str, ...]:
        return ()

    def inject(self, bed: Testbed, targets: Targets) -> Moot | None:
        return None if bed.elect_preferred() else Moot.NO_CONTROLLER
