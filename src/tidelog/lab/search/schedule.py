"""Searching for schedules that break an invariant.

A *trial* is a small cluster, a few clients with a handful of operations, and a decider that chooses at every
step what happens next: which message arrives, whether time passes, what fails. The decider is the only
source of chance, seeded, so a seed names a schedule. Three ways to decide:

* **random**: any deliverable message, any fault, at any time;
* **pct**: probabilistic concurrency testing. Channels get random priorities, the highest goes first, and at
  a few random moments the favourite is demoted: finds bugs of small depth with a known probability;
* **exhaustive**: the fair schedule and every deviation from it with a bounded number of faults.

When the operations are used up everything is healed and given time, and the final claims are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from tidelog.core.types import InvariantViolation, immutable
from tidelog.faults import MENDING_VERBS, SEARCH_FAULTS
from tidelog.faults.active import Active
from tidelog.faults.base import Fault, SearchView
from tidelog.faults.damage import DOWN, KEEPER_DOWN, PAUSED
from tidelog.faults.places import Channel
from tidelog.faults.step import Step
from tidelog.lab.invariants import Watch
from tidelog.lab.world.boot import booted
from tidelog.lab.world.stage import script_runner
from tidelog.lab.world.world import World
from tidelog.scenario.clients.producer import Producer
from tidelog.scenario.conditions import Condition
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.violations import Broken, Grade

CONVERGENCE_LIMIT_MS = 120_000
_EXHAUSTIVE_TICKS = 12
"""How far the exhaustive search looks, in timers: it is long enough for a session to expire twice."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


_OPTIONS_ORDER = ("crash", "power", "pause", "cut", "reset", "elect", "zone", "blackout", "keeper")
_FOCUS_ORDER = ("crash", "pause", "cut", "reset", "power", "elect", "zone", "blackout", "keeper")
"""Seeds name schedules, so these orders stay as they are. Faults that they do not name come last."""
ALL_FAULT_KINDS = (*_FOCUS_ORDER, *(name for name in SEARCH_FAULTS if name not in _FOCUS_ORDER))
USUAL_KINDS = ("crash", "pause", "cut", "reset", "elect")


@immutable
class FaultChoice:
    """Which failures a search may use."""

    kinds: tuple[str, ...] = USUAL_KINDS
    budget: int = 6
    """How many failures at most in one schedule; recoveries are free."""

    def also(self, *kinds: str) -> FaultChoice:
        return replace(self, kinds=(*self.kinds, *kinds))

    def in_order(self) -> tuple[Fault, ...]:
        """In the order of options, without those that others of the choice include."""
        kinds = [kind for kind in (*_OPTIONS_ORDER, *ALL_FAULT_KINDS) if kind in self.kinds]
        faults = [SEARCH_FAULTS[kind] for kind in dict.fromkeys(kinds)]
        return tuple(fault for fault in faults if not set(fault.covered_by) & set(kinds))


@dataclass(slots=True)
class Violation:
    """A schedule that breaks an invariant."""

    scenario: Scenario
    invariant: str
    message: str
    seed: int
    grade: Grade = Grade.DATA


class ScheduleObserver(Protocol):
    """Receives every event of a trial, and checks the final state."""

    def attach(self, world: World) -> None: ...
    def __call__(self, event: object) -> None: ...
    def at_end(self) -> None: ...


class Schedule:
    """One schedule being made: the world, what has been done to it, and what may still be done."""

    def __init__(
        self,
        scenario: Scenario,
        operations: int,
        faults: FaultChoice,
        witness: ScheduleObserver | None = None,
    ) -> None:
        self.scenario = scenario
        self.operations = operations
        self.faults = faults
        self._in_order = faults.in_order()
        self.steps: list[tuple[str, tuple[object, ...]]] = []
        self.watch: ScheduleObserver = Watch() if witness is None else witness
        self.world = booted(scenario.setup, self.watch)
        self.watch.attach(self.world)
        self.actions = script_runner(scenario, self.world)
        self.left = operations
        self.fault_budget = faults.budget
        self.active = Active()
        used = {value for step in scenario.steps if step.verb in ("send", "produce") for value in step.args}
        self._letters = [letter for letter in _LETTERS if letter not in used] if used else _LETTERS
        """Values for new records: every record of a trial must be recognisable."""
        self.producers = [client.name for client in scenario.clients if client.producer is not None]
        self.consumers = [client.name for client in scenario.clients if client.producer is None]

    # ------------------------------------------------------------ the beginning

    def begin(self) -> None:
        """Play the scenario's own steps, if it has any, as the story so far. Then every message waits to be
        chosen."""
        for step in self.scenario.steps:
            self.actions.perform(step)
            self.active.note(step.verb, step.args)
        self.world.network.hold_all = True

    def focus(self, rng: Random) -> None:
        """Swarm testing: leave out some kinds of failure in this schedule, so that the others meet more."""
        kinds = [kind for kind in ALL_FAULT_KINDS if kind in self.faults.kinds]
        kept = [kind for kind in kinds if rng.random() < 0.6] or kinds
        self.faults = replace(self.faults, kinds=tuple(kept))
        self._in_order = self.faults.in_order()

    # ------------------------------------------------------------ moves

    def perform(self, verb: str, *args: object) -> None:
        self.steps.append((verb, args))
        self.actions.perform(Step(verb, args))

    def deliver(self, channel: Channel) -> None:
        self.steps.append(("deliver", (channel,)))
        self.world.deliver(channel)

    def tick(self) -> None:
        if self.world.timers:
            self.steps.append(("tick", ()))
            self.world.tick()

    def operate(self, pick: Callable[[int], int]) -> None:
        """One client operation: mostly sends, sometimes a poll."""
        number = self.operations - self.left
        letters = self._letters
        value = letters[number] if number < len(letters) else f"v{number - len(letters)}"
        self.left -= 1
        choice = pick(len(self.producers) * 3 + len(self.consumers))
        if choice < len(self.producers) * 3:
            producer = self.producers[choice // 3]
            client = self.world.clients[producer]
            size = client.config.batch_records if isinstance(client, Producer) else 1
            # Drawn only where there is a choice: other seeds keep their schedules.
            rest = pick(size) if size > 1 else 0
            self.perform("send", producer, value, *(f"{value}.{number + 1}" for number in range(rest)))
        else:
            self.perform("poll", self.consumers[choice - len(self.producers) * 3])

    def possible_faults(self) -> list[Step]:
        """Everything that could fail or recover now."""
        world, active = self.world, self.active
        links_cut = bool(world.network.blocked)
        found = active.recoveries(links_cut=links_cut)
        if self.fault_budget <= 0:
            return found
        down, paused, keepers_down = active[DOWN], active[PAUSED], active[KEEPER_DOWN]
        topic = world.setup.topics[0]
        view = SearchView(
            [broker for broker in world.broker_ids() if broker not in down and broker not in paused],
            world.zone_of,
            world.zones(),
            links_cut,
            [member for member in range(world.setup.keepers) if member not in keepers_down],
            topic.replicas,
            topic.config.min_insync_replicas,
        )
        for fault in self._in_order:
            found += fault.options(view)
        return found

    def inject_any(self, pick: Callable[[int], int]) -> None:
        options = self.possible_faults()
        if options:
            self.inject(options[pick(len(options))])

    def inject(self, step: Step) -> None:
        if step.verb not in MENDING_VERBS:
            self.fault_budget -= 1
        self.active.note(step.verb, step.args)
        self.perform(step.verb, *step.args)

    # ------------------------------------------------------------ the end

    def finish(self) -> None:
        """Heal everything, wait for the cluster to recover, check what must hold in the end."""
        self.perform("release", "all")
        for step in self.active.heal_steps(links_cut=bool(self.world.network.blocked)):
            self.perform(step.verb, *step.args)
        self.perform("wait", Condition("converged", (), CONVERGENCE_LIMIT_MS))
        self.watch.at_end()

    def as_scenario(self) -> Scenario:
        scenario = self.scenario
        steps = [*scenario.steps, Step("hold", ("all",)), *(Step(verb, args) for verb, args in self.steps)]
        return Scenario(
            scenario.name, scenario.setup, scenario.title, scenario.source, scenario.clients, [], steps
        )


Decider = Callable[[Schedule, Random], None]


def explore_one(
    scenario: Scenario, seed: int, decide: Decider, *, operations: int, faults: FaultChoice
) -> Violation | None:
    """Make and play the schedule of one seed."""
    trial = Schedule(scenario, operations, faults)
    rng = Random(seed)
    try:
        trial.begin()
        decide(trial, rng)
        trial.finish()
    except Broken as broken:
        return Violation(trial.as_scenario(), broken.name, broken.message, seed, broken.grade)
    except InvariantViolation as violation:
        return Violation(trial.as_scenario(), "core", str(violation), seed)
    return None


# ---------------------------------------------------------------- deciders


def decide_randomly(trial: Schedule, rng: Random) -> None:
    """Half of the schedules are chaos, half are a good day on which some channels starve: chaos finds races
    that no one thinks of, a good day gets deep into the protocol before something fails."""
    trial.focus(rng)
    if rng.random() < 0.5:
        _chaos(trial, rng)
    else:
        _starvation(trial, rng)


def _chaos(trial: Schedule, rng: Random) -> None:
    """Any deliverable message next, any fault at any time."""
    random = rng.random

    def pick(n: int) -> int:
        return int(random() * n)

    steps = 40 + pick(200)
    operate = trial.operations / steps * 1.3
    fail = operate + (trial.faults.budget + 3) / steps
    tick = fail + 0.03 + random() * 0.08
    world, network, paused = trial.world, trial.world.network, trial.world.paused
    for _ in range(steps):
        roll = random()
        if roll < operate:
            if trial.left:
                trial.operate(pick)
        elif roll < fail:
            trial.inject_any(pick)
        elif roll < tick or not network.active:
            trial.tick()
        else:
            channels = world.deliverable() if paused else list(network.active)
            if channels:
                trial.deliver(channels[int(random() * len(channels))])
    while trial.left:
        trial.operate(pick)


def _starvation(trial: Schedule, rng: Random) -> None:
    """The oldest message next, except on channels that starve for a while; faults at any time."""
    random = rng.random

    def pick(n: int) -> int:
        return int(random() * n)

    steps = 80 + pick(240)
    operate = trial.operations / steps * 1.2
    fail = operate + (trial.faults.budget * 2 + 4) / steps
    tick = fail + 0.02
    starving: dict[Channel, int] = {}
    oldest: Channel | None
    appetite = 0.01 + random() * 0.08
    longest = 30 if random() < 0.5 else steps
    deliverable, active, paused = trial.world.deliverable, trial.world.network.active, trial.world.paused
    for step in range(steps):
        roll = random()
        if roll < operate:
            if trial.left:
                trial.operate(pick)
            continue
        if roll < fail:
            trial.inject_any(pick)
            continue
        # Mostly the first one is taken, so the others are looked at only when a channel is to starve.
        for oldest in deliverable() if paused else active:
            if starving.get(oldest, 0) <= step:
                break
        else:
            oldest = None
        if oldest is None or roll < tick:
            trial.tick()
        elif random() < appetite:
            fed = [channel for channel in deliverable() if starving.get(channel, 0) <= step]
            starving[fed[pick(len(fed))]] = step + 5 + pick(longest)
        else:
            trial.deliver(oldest)
    while trial.left:
        trial.operate(pick)


def decide_by_priority(trial: Schedule, rng: Random, depth: int = 3) -> None:
    """PCT: always the channel of the highest priority, demoted at ``depth`` random moments.

    The passing of time has a priority too: what ranks below it starves until it is promoted, which is how a
    message outlives two elections.
    """
    trial.focus(rng)
    random = rng.random

    def pick(n: int) -> int:
        return int(random() * n)

    steps = 60 + pick(240)
    changes = {pick(steps) for _ in range(depth)}
    operations = sorted(pick(steps) for _ in range(trial.operations))
    failures = sorted(pick(steps) for _ in range(trial.faults.budget * 2 + 3))
    ticks = {pick(steps) for _ in range(steps // 8)}
    priority: dict[Channel, float] = {}
    time_ranks = random() * 0.3
    floor = -1.0
    for step in range(steps):
        while operations and operations[0] == step:
            operations.pop(0)
            trial.operate(pick)
        while failures and failures[0] == step:
            failures.pop(0)
            trial.inject_any(pick)
        channels = trial.world.deliverable()
        for channel in channels:
            if channel not in priority:
                priority[channel] = random()
        best = max(channels, key=priority.__getitem__, default=None)
        if best is not None and step in changes:
            priority[best], floor = floor, floor - 1.0
            best = max(channels, key=priority.__getitem__)
        if best is None or step in ticks or priority[best] < time_ranks:
            trial.tick()
        else:
            trial.deliver(best)
    while trial.left:
        trial.operate(pick)


DECIDERS: dict[str, Decider] = {"random": decide_randomly, "pct": decide_by_priority}


# ---------------------------------------------------------------- exhaustive, within bounds

_Plan = tuple[tuple[int, int], ...]
"""(step of the fair schedule, number of the fault to inject there), in order of steps"""


def deviations(depth: int) -> Iterator[tuple[int, Decider]]:
    """The fair schedule with every choice of at most ``depth`` faults at every point of it.

    Yields (number, decider), to be played before the next one is asked for: playing a schedule shows which
    faults were possible at which of its steps, and the deeper schedules grow out of that. So the schedules
    with the fewest faults come first.
    """
    number = 0
    frontier: list[_Plan] = [()]
    for level in range(depth + 1):
        following: list[_Plan] = []
        for plan in frontier:
            options_seen: list[int] = []
            yield number, _fair_with(plan, options_seen)
            number += 1
            if level < depth:
                start = plan[-1][0] + 1 if plan else 0
                for position in range(start, len(options_seen)):
                    following += [(*plan, (position, o)) for o in range(options_seen[position])]
        frontier = following


def _fair_with(plan: _Plan, options_seen: list[int]) -> Decider:
    """Play the fair schedule, inject the planned faults, and note how many were possible at each step."""
    wanted = dict(plan)

    def decide(trial: Schedule, _rng: Random) -> None:
        numbers = iter(range(10**9))

        def next_one(n: int) -> int:
            return next(numbers) % n

        position = 0
        ticks_left = _EXHAUSTIVE_TICKS
        while ticks_left:
            options = trial.possible_faults()
            options_seen.append(len(options))
            if position in wanted and wanted[position] < len(options):
                trial.inject(options[wanted[position]])
            position += 1
            channel = trial.world.oldest_message()
            if trial.left and position % 3 == 1:
                trial.operate(next_one)
            elif channel is not None:
                trial.deliver(channel)
            else:
                trial.tick()
                ticks_left -= 1

    return decide
