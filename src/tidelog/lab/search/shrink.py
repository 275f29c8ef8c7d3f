"""From a schedule that fails to the smallest one that fails the same way.

Delta debugging over the steps: leave out ever smaller pieces as long as the same invariant still breaks. A
step that finds nothing to do is harmless, so leaving one out never makes the rest unplayable. Then the
schedule is made readable: if it also fails when messages flow freely between its faults, all the single
deliveries go; else runs of single steps become ``settle`` or ``advance`` wherever that still fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidelog.faults.active import Active
from tidelog.faults.step import Duration, Step
from tidelog.lab.play import first_failure
from tidelog.lab.search.schedule import CONVERGENCE_LIMIT_MS, Violation
from tidelog.scenario.conditions import Condition
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.violations import Broken

_SETTLE = Step("settle")
_PAUSES = tuple(Step("advance", (Duration(ms),)) for ms in (1_000, 4_000, 10_000))

Trouble = Callable[[Scenario, bool], Broken | None]
"""What goes wrong when a scenario is played; the second argument: whether claims about its end count."""


def _first_failure(scenario: Scenario, judge_end: bool) -> Broken | None:
    return first_failure(scenario, judge_end=judge_end)


class _Shrinker:
    def __init__(
        self, finding: Violation, budget: int, progress: Callable[[int], None], trouble: Trouble
    ) -> None:
        self._scenario = finding.scenario
        self.body, self.recovery = _split(finding.scenario)
        self._invariant = finding.invariant
        self._budget = budget
        self._progress = progress
        self.trouble = trouble

    def fails(self, steps: list[Step]) -> bool:
        if self._budget <= 0:
            return False
        self._budget -= 1
        scenario = replace(self._scenario, steps=steps + self.recovery)
        # Without a recovery the violation was seen on the way, and must be seen there again.
        failure = self.trouble(scenario, bool(self.recovery))
        return failure is not None and failure.name == self._invariant

    def minimise(self, steps: list[Step]) -> list[Step]:
        """ddmin: drop chunks, halving their size, until no single step can be left out."""
        size = max(1, len(steps) // 2)
        while True:
            position = 0
            dropped = False
            while position < len(steps):
                candidate = steps[:position] + steps[position + size :]
                if self.fails(candidate):
                    steps = candidate
                    dropped = True
                    self._progress(len(steps))
                else:
                    position += size
            if size == 1 and not dropped:
                return steps
            if not dropped or size > 1:
                size = max(1, size // 2)

    def readable(self, steps: list[Step]) -> list[Step]:
        for freed in (self._freed(steps, None), *(self._freed(steps, pause) for pause in _PAUSES)):
            if self.fails(freed):
                return self.minimise(freed)
        steps = self._replace_runs(steps, ("deliver", "tick"), (_SETTLE, *_PAUSES))
        steps = self._replace_runs(steps, ("tick",), _PAUSES)
        steps = self._replace_runs(steps, ("deliver",), (_SETTLE,))
        return self.minimise(steps)

    def _freed(self, steps: list[Step], pause: Step | None) -> list[Step]:
        """The same operations and faults with messages flowing freely, and perhaps a pause after each."""
        freed: list[Step] = []
        for step in steps:
            if step.verb not in ("hold", "deliver", "release", "tick"):
                freed.append(step)
                if pause is not None:
                    freed.append(pause)
        return freed

    def _replace_runs(self, steps: list[Step], verbs: tuple[str, ...], by: tuple[Step, ...]) -> list[Step]:
        """Replace each run of such steps by a single plainer one, where that still fails."""
        position = 0
        while position < len(steps):
            end = position
            while end < len(steps) and steps[end].verb in verbs:
                end += 1
            if end - position > 1:
                for plain in by:
                    candidate = [*steps[:position], plain, *steps[end:]]
                    if self.fails(candidate):
                        steps = candidate
                        end = position + 1
                        break
            position = max(end, position + 1)
        return steps


def shrink(
    finding: Violation,
    *,
    budget: int = 4_000,
    progress: Callable[[int], None] = lambda _: None,
    trouble: Trouble = _first_failure,
) -> Violation:
    """The smallest schedule found within ``budget`` replays. It breaks the same invariant, or whatever else
    ``trouble`` gives the finding's name to."""
    shrinker = _Shrinker(finding, budget, progress, trouble)
    if not shrinker.fails(shrinker.body):
        return finding
    body = shrinker.readable(shrinker.minimise(shrinker.body))
    steps = body + _needed(body, shrinker.recovery)
    scenario = _without_idle_clients(replace(finding.scenario, steps=steps))
    judge_end = bool(shrinker.recovery)
    failure = trouble(scenario, judge_end)
    if failure is None or failure.name != finding.invariant:
        scenario = replace(finding.scenario, steps=steps)
        failure = trouble(scenario, judge_end)
    message = failure.message if failure is not None else finding.message
    return replace(finding, scenario=scenario, message=message)


def _split(scenario: Scenario) -> tuple[list[Step], list[Step]]:
    """The schedule proper, and a recovery that mends whatever is left broken when steps are left out. A claim
    about the end is worth nothing if the cluster is not given its chance."""
    steps = scenario.steps
    for index in range(len(steps) - 1, -1, -1):
        if steps[index].verb == "release":
            brokers = tuple(range(scenario.setup.brokers))
            mend = [Step("heal"), Step("resume", brokers), Step("restart", brokers)]
            stopped = {step.args: None for step in steps if step.verb == "keeper-stop"}
            mend = [Step("keeper-start", member) for member in stopped] + mend
            wait = Step("wait", (Condition("converged", (), CONVERGENCE_LIMIT_MS),))
            return steps[:index], [steps[index], *mend, wait]
    return steps, []


def _needed(body: list[Step], recovery: list[Step]) -> list[Step]:
    """The recovery without the repair of what is not broken."""
    active = Active()
    for step in body:
        active.note(step.verb, step.args)
    return [needed for step in recovery if (needed := active.needed(step)) is not None]


def _without_idle_clients(scenario: Scenario) -> Scenario:
    used = {step.client for step in scenario.steps}
    return replace(scenario, clients=[client for client in scenario.clients if client.name in used])
