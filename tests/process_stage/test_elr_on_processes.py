"""The schedules of the recordings of Kafka 4.3.1 on real processes: they end as in the simulator, whose
steps ``tests/lab/test_elr_recordings.py`` compares with the recordings."""

from textwrap import dedent

import pytest

from tidelog.process_stage.clock import suitable_paces
from tidelog.process_stage.play import compare_stages
from tidelog.process_stage.processes import Processes
from tidelog.scenario.scenario import parse

HEAD = """
    scenario {name}
    cluster brokers=4 controller=3 replica.lag.time.max.ms=5000{off}
    topic t replicas=0,1,2 min.insync.replicas=2
    producer one zone=az4 acks=1
    producer all zone=az4 acks=all
"""
SCHEDULES = {
    "e1": """
        produce all a
        stop 1
        wait isr 0,2
        produce all b
        stop 2
        wait isr 0
        produce one c
        stop 0
        wait leader none
        restart 2
        advance 2s
        restart 0
        advance 2s
        restart 1
        wait converged within 60s
    """,
    "e2a": """
        produce all a
        crash 1
        wait isr 0,2
        produce all b
        crash 2
        wait isr 0
        produce one c
        crash 0
        wait leader none
        restart 2
        advance 2s
        restart 1
        advance 2s
        restart 0
        wait converged within 60s
    """,
}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("off", ["", " without=eligible_leader_replicas"], ids=["elr", "noelr"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_recorded_schedule_on_processes(name: str, off: str) -> None:
    """Leader, epochs, ISR, eligible replicas and logs are those of the simulator."""
    scenario = parse(dedent(HEAD.format(name=name, off=off)) + dedent(SCHEDULES[name])).under("elr")
    with Processes() as processes:
        compared = compare_stages(scenario, processes, suitable_paces())
    assert compared.same, compared.differences
