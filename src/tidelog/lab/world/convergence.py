"""Has the cluster recovered?"""

from __future__ import annotations

from tidelog.core.types import Millis
from tidelog.lab.world.view import WorldView
from tidelog.lab.world.world import World
from tidelog.scenario.conditions import converged


def is_converged(world: World) -> bool:
    return converged(WorldView(world), world.setup)


def converge(world: World, limit: Millis) -> bool:
    """Run fairly, looking only when nothing is in flight, until the cluster has recovered."""
    until, view = world.now + limit, WorldView(world)
    while True:
        world.settle()
        if converged(view, world.setup):
            return True
        timer = world.next_timer
        if timer is None or timer > until:
            world.now = until
            return False
        world.tick()
