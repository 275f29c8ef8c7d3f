"""Playing a scenario while a person waits: on real processes that takes seconds, and may be interrupted.

What is being done is shown on stderr, and only on a terminal. However it ends, every process that was started
has ended before the command does.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from tidelog.cli.errors import Refusal
from tidelog.cli.output import console

if TYPE_CHECKING:
    from tidelog.lab.grammar import Step
    from tidelog.lab.runner import Run
    from tidelog.lab.scenario import Scenario
    from tidelog.trials.comparison import StageComparison
    from tidelog.trials.pace import Pace


def play(scenario: Scenario, stage: str, pace: float | None = None) -> Run:
    """Play a scenario on a stage."""
    if stage == "sim":
        from tidelog.lab.runner import run

        return run(scenario)
    return _play_on_cluster(scenario, paces(pace)[0])


def paces(factor: float | None) -> list[Pace]:
    """The pace that was asked for, or those that suit this machine."""
    from tidelog.trials.pace import FACTOR_MAX, FACTOR_MIN, Pace, suitable_paces

    if factor is None:
        return suitable_paces()
    if not FACTOR_MIN <= factor <= FACTOR_MAX:
        raise Refusal(f"pace {factor:g}: choose a number from {FACTOR_MIN:g} to {FACTOR_MAX:g}")
    return [Pace(factor)]


def compare_with_sim(scenario: Scenario, pace: float | None) -> StageComparison:
    """Simulator and real brokers. Where they differ, the latter get more time before that is believed."""
    from tidelog.lab.runner import run
    from tidelog.trials.comparison import compare

    simulated = run(scenario)
    for each in paces(pace):
        compared = compare(simulated, _play_on_cluster(scenario, each))
        if compared.same:
            break
    return compared


def _play_on_cluster(scenario: Scenario, pace: Pace) -> Run:
    from tidelog.trials.folders import TrialError
    from tidelog.trials.processes import Processes
    from tidelog.trials.stages import play_on_cluster

    screen = console(stderr=True)
    at = "the start"
    try:
        with (
            _ended_by_sigterm(),
            Processes() as processes,
            screen.status(f"starting {scenario.setup.brokers} brokers") as status,
        ):

            def show(number: int, step: Step) -> None:
                nonlocal at
                at = f"step {number} ({step})"
                status.update(f"{number} of {len(scenario.steps)}: {step}")

            return play_on_cluster(scenario, processes, pace, show)
    except TrialError as error:
        raise Refusal(str(error)) from None
    except KeyboardInterrupt:
        raise Refusal(f"interrupted at {at}; every process of the trial is stopped") from None


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
