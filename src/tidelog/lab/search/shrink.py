"""From a schedule that fails to the smallest one that fails the same way.

Delta debugging over the steps: leave out ever smaller pieces as long as the same invariant still breaks. A
step that finds nothing to do is harmless, so leaving one out never makes the rest unplayable. Then the
schedule is made readable: if it also fails when messages flow freely between its faults, all the single
deliveries go; else runs of single steps become ``settle`` or ``advance`` wherever that still fails.

What to try next is decided by generators that play nothing themselves: so there is a pause after every
replay, in which a browser can show how far it is, and the reader can stop it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

from tidelog.faults.active import Active
from tidelog.faults.step import Duration, Step
from tidelog.lab.play import first_failure
from tidelog.lab.search.schedule import CONVERGENCE_LIMIT_MS, Violation
from tidelog.scenario.conditions import Condition
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.violations import Broken

REPLAYS_MAX = 4_000
_SETTLE = Step("settle")
_PAUSES = tuple(Step("advance", (Duration(ms),)) for ms in (1_000, 4_000, 10_000))

Trouble = Callable[[Scenario, bool], Broken | None]
"""What goes wrong when a scenario is played; the second argument: whether claims about its end count."""


def _first_failure(scenario: Scenario, judge_end: bool) -> Broken | None:
    return first_failure(scenario, judge_end=judge_end)


Trying = Generator[list[Step], bool, list[Step]]
"""Yields steps to try, is sent whether they still fail, and returns the fewest that did."""


def _attempts(body: list[Step]) -> Trying:
    """What is tried of a body of steps, in this order."""
    if not (yield body):
        return body
    steps = yield from _minimise(body)
    return (yield from _readable(steps))


def _minimise(steps: list[Step]) -> Trying:
    """ddmin: drop chunks, halving their size, until no single step can be left out."""
    size = max(1, len(steps) // 2)
    while True:
        position = 0
        dropped = False
        while position < len(steps):
            candidate = steps[:position] + steps[position + size :]
            if (yield candidate):
                steps = candidate
                dropped = True
            else:
                position += size
        if size == 1 and not dropped:
            return steps
        if not dropped or size > 1:
            size = max(1, size // 2)


def _readable(steps: list[Step]) -> Trying:
    for freed in (_freed(steps, None), *(_freed(steps, pause) for pause in _PAUSES)):
        if (yield freed):
            return (yield from _minimise(freed))
    steps = yield from _replace_runs(steps, ("deliver", "tick"), (_SETTLE, *_PAUSES))
    steps = yield from _replace_runs(steps, ("tick",), _PAUSES)
    steps = yield from _replace_runs(steps, ("deliver",), (_SETTLE,))
    return (yield from _minimise(steps))


def _freed(steps: list[Step], pause: Step | None) -> list[Step]:
    """The same operations and faults with messages flowing freely, and perhaps a pause after each."""
    freed: list[Step] = []
    for step in steps:
        if step.verb not in ("hold", "deliver", "release", "tick"):
            freed.append(step)
            if pause is not None:
                freed.append(pause)
    return freed


def _replace_runs(steps: list[Step], verbs: tuple[str, ...], by: tuple[Step, ...]) -> Trying:
    """Replace each run of such steps by a single plainer one, where that still fails."""
    position = 0
    while position < len(steps):
        end = position
        while end < len(steps) and steps[end].verb in verbs:
            end += 1
        if end - position > 1:
            for plain in by:
                candidate = [*steps[:position], plain, *steps[end:]]
                if (yield candidate):
                    steps = candidate
                    end = position + 1
                    break
        position = max(end, position + 1)
    return steps


def shrink(
    finding: Violation,
    *,
    budget: int = REPLAYS_MAX,
    progress: Callable[[int], None] = lambda _: None,
    trouble: Trouble = _first_failure,
) -> Violation:
    """The smallest schedule found within ``budget`` replays. It breaks the same invariant, or whatever else
    ``trouble`` gives the finding's name to."""
    for smallest in shrinking(finding, budget=budget, trouble=trouble):
        progress(len(smallest.scenario.steps))
        finding = smallest
    return finding


def shrinking(
    finding: Violation, *, budget: int = REPLAYS_MAX, trouble: Trouble = _first_failure
) -> Iterator[Violation]:
    """Shrink a replay at a time: the smallest schedule so far, and as the last one the result."""
    body, recovery = _split(finding.scenario)
    # Without a recovery the violation was seen on the way, and must be seen there again.
    judge_end = bool(recovery)

    def with_steps(steps: list[Step]) -> Violation | None:
        """The same violation with other steps, if they have it."""
        scenario = replace(finding.scenario, steps=steps)
        failure = trouble(scenario, judge_end)
        if failure is None or failure.name != finding.invariant:
            return None
        return replace(finding, scenario=scenario, message=failure.message)

    smallest = finding
    attempts = _attempts(body)
    candidate = next(attempts)
    while True:
        failing = with_steps(candidate + recovery) if budget > 0 else None
        budget -= 1
        smallest = failing or smallest
        yield smallest
        try:
            candidate = attempts.send(failing is not None)
        except StopIteration as done:
            body = done.value
            break
    if smallest is not finding:
        yield _tidied(finding, body + _needed(body, recovery), judge_end, trouble)


def _tidied(finding: Violation, steps: list[Step], judge_end: bool, trouble: Trouble) -> Violation:
    """The result, without clients that have nothing to do, if it breaks the invariant without them, too."""
    scenario = _without_idle_clients(replace(finding.scenario, steps=steps))
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
