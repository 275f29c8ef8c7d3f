"""What can be done to a cluster, real or simulated: one file for each fault."""

from __future__ import annotations

from tidelog.faults.base import Fault
from tidelog.faults.below_min_isr import BelowMinIsr
from tidelog.faults.blackout import Blackout
from tidelog.faults.clock import Clock
from tidelog.faults.cut import Cut
from tidelog.faults.damage import DAMAGES
from tidelog.faults.delay import Delay
from tidelog.faults.elect import Elect
from tidelog.faults.full_disk import FullDisk
from tidelog.faults.hold import Hold
from tidelog.faults.keeper import Keeper
from tidelog.faults.kill import Kill
from tidelog.faults.pause import Pause
from tidelog.faults.power import Power
from tidelog.faults.reset import Reset
from tidelog.faults.restart import Restart
from tidelog.faults.slow_disk import SlowDisk
from tidelog.faults.zone import Zone

FAULTS: tuple[Fault, ...] = (
    Kill(),
    Power(),
    Pause(),
    Restart(),
    Cut(),
    Delay(),
    Hold(),
    Zone(),
    Blackout(),
    Reset(),
    Keeper(),
    FullDisk(),
    SlowDisk(),
    Clock(),
    Elect(),
    BelowMinIsr(),
)
"""The order is part of what is published: seeds name schedules that are drawn in it."""

TRIAL_FAULTS = {fault.name: fault for fault in FAULTS if fault.weight}
"""By the names of trials and evidence."""
SEARCH_FAULTS = {fault.search_name: fault for fault in FAULTS if fault.searched}
"""By the names of searches and sweeps."""
FAULT_VERBS = {fault.verb: fault for fault in reversed(FAULTS) if fault.verb}
"""By what they are called in scenario files; of several with one verb the first, which is the plain one."""
MENDING_VERBS = {damage.verb: damage for damage in DAMAGES if damage.verb}
