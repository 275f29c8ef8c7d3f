"""Connections break, and are opened again."""

from __future__ import annotations

from tidelog.faults.base import Fault, SearchView, Words
from tidelog.faults.step import Step
from tidelog.faults.targets import Takes, Targets
from tidelog.faults.testbed import Testbed


class Reset(Fault):
    name = verb = "reset"
    words = Words(
        "connections between two brokers break and are opened again", "两个代理之间的连接中断后重新建立"
    )
    takes = Takes.PAIR
    searched = True

    def options(self, view: SearchView) -> list[Step]:
        running = view.running
        return [Step(self.verb, (a, b)) for a in running for b in running if a < b]

    def inject(self, bed: Testbed, targets: Targets) -> None:
        bed.reset_connections(*targets.brokers)
