"""What befalls the brokers of a simulated cluster: they crash, freeze and are cut off, as a seed says."""

from __future__ import annotations

import random

from tests.groups.simulated import SimulatedGroups


class Mishaps:
    def __init__(self, groups: SimulatedGroups, dice: random.Random) -> None:
        self.groups = groups
        self.world = groups.world
        self.dice = dice
        self.all = (self.crash, self.start, self.freeze, self.thaw, self.cut, self.heal)

    def wait(self) -> str:
        ms = self.dice.choice([1, 10, 100, 1_000, 3_000])
        self.groups.advance(ms)
        return f"{ms} ms"

    def _running(self) -> list[int]:
        return [process.id for process in self.world.processes if process.core is not None]

    def crash(self) -> str:
        broker = self.dice.choice([*self._running(), -1])
        if broker >= 0:
            self.world.crash(broker)
        return f"crash {broker}"

    def start(self) -> str:
        down = [process.id for process in self.world.processes if process.core is None]
        for broker in down:
            self.world.start(broker)
        return f"start {down}"

    def freeze(self) -> str:
        able = [broker for broker in self._running() if broker not in self.world.paused]
        broker = self.dice.choice([*able, -1])
        if broker >= 0:
            self.world.pause(broker)
        return f"freeze {broker}"

    def thaw(self) -> str:
        frozen = list(self.world.paused)
        for broker in frozen:
            assert isinstance(broker, int)
            self.world.resume(broker)
        return f"thaw {frozen}"

    def cut(self) -> str:
        nodes: list[int | str] = [0, 1, 2, "keeper-0", "keeper-1", "keeper-2"]
        a, b = self.dice.sample(nodes, 2)
        self.world.cut([(a, b), (b, a)])
        return f"cut {a} {b}"

    def heal(self) -> str:
        self.world.heal()
        return "heal"

    def make_good(self) -> list[str]:
        """All brokers run and reach each other, and have had time to notice."""
        done = [self.heal(), self.thaw(), self.start()]
        self.groups.advance(12_000)
        return done
