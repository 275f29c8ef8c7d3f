"""Messages wait in the network: in trials, the fetches of a follower."""

from __future__ import annotations

from random import Random

from tidelog.faults.base import Fault, Grounds, Words
from tidelog.faults.damage import HELD, channels_of
from tidelog.faults.targets import Takes, Targets
from tidelog.faults.testbed import Ability, Testbed


class Hold(Fault):
    name = verb = "hold"
    words = Words("the fetches of a broker wait in the network", "代理的拉取请求滞留在网络中")
    takes = Takes.CHANNEL_OR_ALL
    leaves = HELD
    weight = 1
    needs = frozenset((Ability.LINKS, Ability.MESSAGES))

    def draw(self, dice: Random, group: list[int], grounds: Grounds) -> tuple[str, ...]:
        return tuple(f"{group[0]}>{other}" for other in grounds.zones if other != group[0])

    def inject(self, bed: Testbed, targets: Targets) -> None:
        bed.hold(channels_of(targets))
