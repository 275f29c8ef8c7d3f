"""A broker's disk is full."""

from __future__ import annotations

from tidelog.faults.base import Fault, Words
from tidelog.faults.damage import DISK_FULL
from tidelog.faults.targets import Targets
from tidelog.faults.testbed import Testbed


class FullDisk(Fault):
    name = "full"
    words = Words("a broker's disk is full", "代理的磁盘已满")
    leaves = DISK_FULL
    weight = 1

    def inject(self, bed: Testbed, targets: Targets) -> None:
        bed.fill_disk(targets.brokers[0])
