"""A broker stands still."""

from __future__ import annotations

from tidelog.faults.base import Fault, SearchView, Words
from tidelog.faults.damage import PAUSED
from tidelog.faults.step import Step
from tidelog.faults.targets import Moot, Takes, Targets
from tidelog.faults.testbed import Processes, Testbed


class Pause(Fault):
    name = verb = "pause"
    words = Words(
        "a broker stands still (a long collection, a frozen machine) and comes back",
        "代理停顿（长时间垃圾回收、机器卡死），之后恢复",
    )
    takes = Takes.BROKERS
    leaves = PAUSED
    searched = True
    weight = 3

    def options(self, view: SearchView) -> list[Step]:
        return [Step(self.verb, (broker,)) for broker in view.running]

    def moot(self, bed: Processes, targets: Targets) -> Moot | None:
        broker = targets.brokers[0]
        return None if bed.is_up(broker) and not bed.is_paused(broker) else Moot.NOT_RUNNING

    def inject(self, bed: Testbed, targets: Targets) -> None:
        bed.pause(targets.brokers[0])
