"""A broker does nothing for a while."""

from __future__ import annotations

from tidelog.faults.base import Fault, SearchView, Words
from tidelog.faults.damage import PAUSED
from tidelog.faults.step import Step
from tidelog.faults.targets import Moot, Takes, Targets
from tidelog.faults.testbed import ProcessView, Testbed


class Pause(Fault):
    name = verb = "pause"
    words = Words(
        "a broker freezes (a long collection, a paused machine) and comes back",
        "代理停顿（长时间垃圾回收、机器卡住），之后恢复",
    )
    takes = Takes.BROKERS
    leaves = PAUSED
    searched = True
    weight = 3

    def options(self, view: SearchView) -> list[Step]:
        return [Step(self.verb, (broker,)) for broker in view.running]

    def moot(self, bed: ProcessView, targets: Targets) -> Moot | None:
        broker = targets.brokers[0]
        return None if bed.is_up(broker) and not bed.is_paused(broker) else Moot.NOT_RUNNING

    def inject(self, bed: Testbed, targets: Targets) -> None:
        bed.pause(targets.brokers[0])
