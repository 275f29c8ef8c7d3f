"""A broker is stopped in order, and started again."""

from __future__ import annotations

from random import Random

from tidelog.faults.base import Fault, Words
from tidelog.faults.damage import DOWN
from tidelog.faults.targets import Moot, Takes, Targets
from tidelog.faults.testbed import ProcessView, Testbed


class Restart(Fault):
    name, verb = "restart", "stop"
    words = Words("a broker is shut down in order and started again", "代理正常关闭后重新启动")
    takes = Takes.BROKER
    leaves = DOWN
    weight = 2

    def duration_ms(self, dice: Random, session_ms: int) -> int:
        return dice.randrange(0, session_ms)

    def moot(self, bed: ProcessView, targets: Targets) -> Moot | None:
        return None if bed.is_up(targets.brokers[0]) else Moot.ALREADY_DOWN

    def inject(self, bed: Testbed, targets: Targets) -> None:
        bed.stop(targets.brokers[0])
