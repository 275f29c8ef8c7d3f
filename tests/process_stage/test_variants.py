"""Schedules like those that were recorded, on both stages: equal after every command, not only at the end."""

import pytest
from tests.process_stage.variants import variant

from tidelog.lab.play import run
from tidelog.process_stage.clock import suitable_paces
from tidelog.process_stage.compare import ledger_differences, partition_differences
from tidelog.process_stage.play import play_on_cluster
from tidelog.process_stage.processes import Processes
from tidelog.scenario.run import Run

SEEDS = range(6, 12)
"""Each of the rules once, elr twice."""


def differences(simulated: Run, real: Run) -> list[object]:
    found: list[object] = []
    for number, (one, other) in enumerate(zip(simulated.played, real.played, strict=True)):
        if one.step is not None and one.step.verb == "advance":
            here, there = one.after.partitions[0], other.after.partitions[0]
            step = f"{number - 1}, {simulated.played[number - 1].step}"
            found += [(step, found) for found in partition_differences(here, there, ordered_isr=False)]
            versions = here.partition_epoch, there.partition_epoch
            if versions[0] != versions[1]:
                found.append((step, "partition epoch", *versions))
    return found + list[object](ledger_differences(simulated.ledger, real.ledger))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_both_stages_agree_at_every_step(seed: int) -> None:
    """Leader, epochs, ISR, eligible replicas, logs, watermarks, and what producers were told."""
    scenario = variant(seed)
    simulated = run(scenario)
    with Processes() as processes:
        for pace in suitable_paces():
            found = differences(simulated, play_on_cluster(scenario, processes, pace))
            if not found:
                break
    assert found == []
