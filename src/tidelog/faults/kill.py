"""A broker's process dies."""

from __future__ import annotations

from tidelog.faults.base import Fault, SearchView, Words
from tidelog.faults.damage import DISK_FULL, DISK_SLOW, DOWN, PAUSED
from tidelog.faults.step import Step
from tidelog.faults.targets import Moot, Takes, Targets
from tidelog.faults.testbed import ProcessView, Testbed


class Kill(Fault):
    name, alias, verb = "kill", "crash", "crash"
    words = Words(
        "a broker's process dies (kill -9); its disk keeps everything",
        "代理进程被杀死（kill -9），磁盘内容保留",
    )
    takes = Takes.BROKERS
    leaves, ends = DOWN, (PAUSED, DISK_FULL, DISK_SLOW)
    searched = True
    weight = 4

    def options(self, view: SearchView) -> list[Step]:
        return [Step(self.verb, (broker,)) for broker in view.running]

    def moot(self, bed: ProcessView, targets: Targets) -> Moot | None:
        return None if bed.is_up(targets.brokers[0]) else Moot.ALREADY_DOWN

    def inject(self, bed: Testbed, targets: Targets) -> None:
        for broker in targets.brokers:
            bed.kill(broker)
