"""What stays broken after a fault, and how it is mended: several faults may leave the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.faults.places import Channel
from tidelog.faults.targets import Moot, Takes, Targets
from tidelog.faults.testbed import ProcessView, Testbed


def _anything_to_do(bed: ProcessView, targets: Targets) -> Moot | None:
    return None


@dataclass(slots=True, frozen=True, eq=False)
class Damage:
    name: str
    mend: Callable[[Testbed, Targets], None]
    verb: str = ""
    """Mends it in scenario files."""
    takes: Takes = Takes.NOTHING
    moot: Callable[[ProcessView, Targets], Moot | None] = _anything_to_do
    restarts: bool = False
    """To mend it a broker is started."""


def _start(bed: Testbed, targets: Targets) -> None:
    for broker in targets.brokers:
        bed.start(broker)


def _resume(bed: Testbed, targets: Targets) -> None:
    for broker in targets.brokers:
        bed.resume(broker)


def _mend_links(bed: Testbed, targets: Targets) -> None:
    bed.mend(bed.border(targets.zone) if targets.zone else targets.links or None)


def _start_keeper(bed: Testbed, targets: Targets) -> None:
    for member in targets.members:
        bed.keeper_member(member, running=True)
    if not targets.members:
        bed.keeper(running=True)


def _release(bed: Testbed, targets: Targets) -> None:
    bed.release(channels_of(targets))


def channels_of(targets: Targets) -> tuple[Channel, ...] | None:
    """Of a link those of fetches. None: all there are."""
    return targets.channels or tuple(Channel("fetch", *link) for link in targets.links) or None


def _hurry(bed: Testbed, targets: Targets) -> None:
    bed.delay(targets.links, 0)


def _free_disk(bed: Testbed, targets: Targets) -> None:
    bed.free_disk(targets.brokers[0])


def _fast_disk(bed: Testbed, targets: Targets) -> None:
    bed.slow_disk(targets.brokers[0], 0)


def _right_clock(bed: Testbed, targets: Targets) -> None:
    bed.set_clock(targets.brokers[0], 0)


def _runs(bed: ProcessView, targets: Targets) -> Moot | None:
    return Moot.ALREADY_RUNNING if bed.is_up(targets.brokers[0]) else None


def _is_awake(bed: ProcessView, targets: Targets) -> Moot | None:
    return None if bed.is_paused(targets.brokers[0]) else Moot.NOT_PAUSED


DOWN = Damage("down", _start, "restart", Takes.BROKERS, _runs, restarts=True)
PAUSED = Damage("paused", _resume, "resume", Takes.BROKERS, _is_awake)
CUT = Damage("cut", _mend_links, "heal", Takes.SIDES_OR_NOTHING)
KEEPER_DOWN = Damage("keeper down", _start_keeper, "keeper-start", Takes.MEMBER)
HELD = Damage("held", _release, "release", Takes.CHANNEL_OR_ALL)
DELAYED = Damage("delayed", _hurry)
DISK_FULL = Damage("disk full", _free_disk)
DISK_SLOW = Damage("disk slow", _fast_disk)
WRONG_CLOCK = Damage("wrong clock", _right_clock, restarts=True)

DAMAGES = (DOWN, PAUSED, CUT, KEEPER_DOWN, HELD, DELAYED, DISK_FULL, DISK_SLOW, WRONG_CLOCK)
