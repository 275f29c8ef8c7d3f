"""Playing a scenario in the simulator or on real processes. Both return a `Run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.faults.step import Step
from tidelog.lab.play import run
from tidelog.process_stage.clock import Pace, suitable_paces
from tidelog.process_stage.cluster_stage import ClusterStage
from tidelog.process_stage.compare import StageComparison, compare
from tidelog.process_stage.processes import Processes
from tidelog.scenario.run import Played, Run
from tidelog.scenario.scenario import Scenario
from tidelog.scenario.verbs import ScriptRunner
from tidelog.scenario.verdict import judge_end, ledger_of

OnStep = Callable[[int, Step], None]

SIM, CLUSTER = "sim", "cluster"
STAGES = (SIM, CLUSTER)


def play(scenario: Scenario, stage: str, *, pace: Pace | None = None) -> Run:
    """Play a scenario. ``pace`` is for stage ``cluster``. Raises ``TrialError`` if it cannot be played."""
    if stage == SIM:
        return run(scenario)
    with Processes() as processes:
        return play_on_cluster(scenario, processes, pace or suitable_paces()[0])


def play_on_cluster(
    scenario: Scenario,
    processes: Processes,
    pace: Pace,
    on_step: OnStep = lambda number, step: None,
) -> Run:
    """Play a scenario on real brokers. ``processes`` can be used for several plays in turn. ``on_step`` is
    called with the number, from 1, and the step, before each step."""
    timed_out = [played.timed_out for played in run(scenario).played[1:]]
    stage = ClusterStage(scenario, processes, pace)
    try:
        stage.open()
        commands = ScriptRunner(scenario, stage)
        played = [Played(None, (), stage.events(), stage.snapshot())]
        for number, step in enumerate(scenario.steps):
            on_step(number + 1, step)
            stage.begin_step(times_out=number < len(timed_out) and timed_out[number])
            remarks = commands.perform(step)
            # A hold changes no state, and the next step is often urgent.
            after = played[-1].after if step.verb == "hold" else stage.snapshot()
            played.append(Played(step, remarks, stage.events(), after))
        played[-1].after = stage.final_snapshot()
        clients = stage.clients.values()
        return Run(scenario, played, judge_end(played[-1].after, clients), ledger_of(clients), stage=CLUSTER)
    finally:
        stage.close()


def compare_stages(
    scenario: Scenario,
    processes: Processes,
    paces: Sequence[Pace],
    on_step: OnStep = lambda number, step: None,
) -> StageComparison:
    """Play a scenario in the simulator and on real brokers. If the ends differ, play it again at the next,
    slower pace: only a difference at the last pace counts."""
    simulated = run(scenario)
    for pace in paces:
        compared = compare(simulated, play_on_cluster(scenario, processes, pace, on_step))
        if compared.same:
            break
    return compared
