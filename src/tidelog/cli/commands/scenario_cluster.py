"""Play a scenario on broker processes, which takes seconds, with progress and Ctrl-C.

Progress goes to stderr, and only to a terminal. The command stops every process that it started before it
returns, also after an error or Ctrl-C.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import scenario_named
from tidelog.cli.show.output import console, write_json, write_lines
from tidelog.errors import Refusal

if TYPE_CHECKING:
    from tidelog.faults.step import Step
    from tidelog.process_stage.clock import Pace
    from tidelog.process_stage.compare import StageComparison
    from tidelog.process_stage.play import OnStep
    from tidelog.process_stage.processes import Processes
    from tidelog.scenario.run import Run
    from tidelog.scenario.scenario import Scenario

Result = TypeVar("Result")


def play(scenario: Scenario, stage: str, pace: float | None = None) -> Run:
    """Play a scenario in the simulator (``sim``) or on broker processes (``cluster``)."""
    if stage == "sim":
        from tidelog.lab.play import run

        return run(scenario)
    from tidelog.process_stage.play import play_on_cluster

    chosen = _paces(pace)[0]
    return _on_processes(scenario, lambda processes, show: play_on_cluster(scenario, processes, chosen, show))


def compare_with_sim(scenario: Scenario, pace: float | None) -> StageComparison:
    """Compare the simulator with broker processes. A difference is confirmed at slower paces, because a busy
    machine can cause one."""
    from tidelog.process_stage.play import compare_stages

    paces = _paces(pace)
    return _on_processes(scenario, lambda processes, show: compare_stages(scenario, processes, paces, show))


def _paces(factor: float | None) -> list[Pace]:
    """The given pace, or the paces that suit this machine."""
    from tidelog.process_stage.clock import FACTOR_MAX, FACTOR_MIN, Pace, suitable_paces

    if factor is None:
        return suitable_paces()
    if not FACTOR_MIN <= factor <= FACTOR_MAX:
        raise Refusal(f"pace {factor:g}: choose a number from {FACTOR_MIN:g} to {FACTOR_MAX:g}")
    return [Pace(factor)]


def _on_processes(scenario: Scenario, work: Callable[[Processes, OnStep], Result]) -> Result:
    """Call ``work`` with broker processes, and show its progress."""
    from tidelog.process_stage.processes import Processes

    at = "the start"
    try:
        with (
            _interrupted_once(),
            Processes() as processes,
            console(stderr=True).status(f"starting {scenario.setup.brokers} brokers") as status,
        ):

            def show(number: int, step: Step) -> None:
                nonlocal at
                at = f"step {number} ({step})"
                status.update(f"{number} of {len(scenario.steps)}: {step}")

            return work(processes, show)
    except KeyboardInterrupt:
        raise Refusal(f"interrupted at {at}; every process of the trial is stopped") from None


@contextmanager
def _interrupted_once() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, and ignore further signals. Stopping all processes takes a moment, and a
    second signal would leave some of them running."""
    signals = (signal.SIGINT, signal.SIGTERM)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def compare_stages(name: str, generation: list[str], pace: float | None, *, as_json: bool) -> int:
    from tidelog.cli.show.comparison import differences

    if len(generation) > 1:
        raise Refusal("--stages compares under one generation: give --generation once")
    scenario = scenario_named(name, generation[0] if generation else None)
    compared = compare_with_sim(scenario, pace)
    if as_json:
        write_json(compared.as_json())
    else:
        screen = console()
        write_lines(screen, differences(screen, compared))
    return ExitCode.HELD if compared.same else ExitCode.VIOLATED
