"""Playing a scenario from beginning to end in the simulator."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.core.types import InvariantViolation
from tidelog.faults.step import Step
from tidelog.lab.invariants import Watch
from tidelog.lab.world.boot import booted
from tidelog.lab.world.snapshot import judge, take
from tidelog.lab.world.stage import script_runner
from tidelog.lab.world.world import Observer, World
from tidelog.scenario.remarks import Remark, RemarkKind
from tidelog.scenario.run import Played, Run
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.setup import Setup
from tidelog.scenario.verdict import ledger_of
from tidelog.scenario.violations import Broken

MakeWorld = Callable[[Setup, Observer], World]


def run(
    scenario: Scenario,
    *,
    make_world: MakeWorld = World,
    after_step: Callable[[World], None] = lambda world: None,
) -> Run:
    """Play all steps. A broken invariant is noted, and the play continues.

    A caller that needs more than the run can pass a world that records, and look at it in ``after_step``,
    which is also called at the beginning."""
    watch = Watch()
    broken: list[Broken] = []
    broken_at: list[int] = []
    events: list[tuple[int, object]] = []
    world: World | None = None
    played: list[Played] = []

    def note(failure: Broken) -> None:
        if failure.name not in {known.name for known in broken}:
            broken.append(failure)
            broken_at.append(len(played))

    def observe(event: object) -> None:
        if world is None:
            return  # the cluster is being set up
        events.append((world.now, event))
        try:
            watch(event)
        except Broken as failure:
            note(failure)
        if watch.kept is not None:
            note(watch.kept)

    def finish_step(step: Step | None, remarks: tuple[Remark, ...]) -> None:
        nonlocal events
        assert world is not None
        played.append(Played(step, remarks, events, take(world)))
        events = []
        after_step(world)

    world = make_world(scenario.setup, observe)
    watch.attach(world)
    actions = script_runner(scenario, world)
    finish_step(None, ())
    for step in scenario.steps:
        try:
            finish_step(step, actions.perform(step))
        except InvariantViolation as violation:
            note(Broken("core", str(violation)))
            finish_step(step, (Remark(RemarkKind.CORE_STOPPED, {"violation": str(violation)}),))
            break
    for failure in watch.failures_at_end():
        note(failure)
    return Run(scenario, played, judge(world), ledger_of(world.clients.values()), broken, broken_at)


def first_failure(scenario: Scenario, *, judge_end: bool = True) -> Broken | None:
    """Play a scenario only to see which invariant breaks first, without taking notes. Claims about the end
    are for scenarios that let the cluster recover."""
    watch = Watch()
    try:
        world = booted(scenario.setup, watch)
        watch.attach(world)
        actions = script_runner(scenario, world)
        for step in scenario.steps:
            actions.perform(step)
        if judge_end:
            watch.at_end()
    except Broken as failure:
        return failure
    except InvariantViolation as violation:
        return Broken("core", str(violation))
    return None
