"""All brokers of a zone lose power at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.faults.base import SearchView, Words
from tidelog.faults.places import Node
from tidelog.faults.power import Power
from tidelog.faults.step import Step


class Blackout(Power):
    name = "blackout"
    words = Words("all brokers of a zone lose power at once", "一个可用区的所有代理同时断电")
    weight = 0

    def options(self, view: SearchView) -> list[Step]:
        homes = dict.fromkeys(map(view.zone_of, view.running))
        return [Step(self.verb, tuple(b for b in view.running if view.zone_of(b) == zone)) for zone in homes]

    def is_step(self, step: Step, zone_of: Callable[[Node], str], brokers: Sequence[int]) -> bool:
        """A zone of one broker loses power as that broker does."""
        if step.verb != self.verb:
            return False
        zone = zone_of(step.args[0])  # type: ignore[arg-type]
        return all(broker in step.args for broker in brokers if zone_of(broker) == zone)
