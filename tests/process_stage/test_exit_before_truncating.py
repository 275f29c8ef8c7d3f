"""A broker of 0.10 whose log is longer than its leader's exits, where unclean elections are forbidden
(KAFKA-7414): on real processes, as on the recorded clusters."""

from pathlib import Path

import pytest

from tidelog.core.events import BrokerExited, Truncated
from tidelog.core.types import TopicPartition
from tidelog.process_stage.clock import suitable_paces
from tidelog.process_stage.play import compare_stages
from tidelog.process_stage.processes import Processes
from tidelog.scenario.scenario import Scenario, parse

HW_LOSS = """
    scenario exit
    cluster brokers=3 controller=2
    topic t replicas=0,1
    producer p zone=az1 acks=all
    produce p a b
    wait knows 1 b
    advance 5s
    hold fetch 1->0
    send p c
    wait holds 1 c
    deliver fetch 1->0
    crash 1
    release fetch 1->0
    advance 5s
    pause 2
    wait unregistered 1
    restart 1
    wait registered 1
    pause 0
    crash 2
    wait controller 1
    delete /controller
    wait follows 1 0
    crash 0
    wait leader 1
    restart 0
    advance 10s
"""
"""The scenario hw-loss without its permission for unclean elections."""


def scenario() -> Scenario:
    return parse("\n".join(map(str.strip, HW_LOSS.strip().splitlines()))).under("hw")


@pytest.mark.long
@pytest.mark.slow
def test_a_real_broker_exits_instead_of_truncating(tmp_path: Path) -> None:
    """The process ends by itself and says why; c stays on its disk, and the leader goes on alone."""
    with Processes(tmp_path) as processes:
        compared = compare_stages(scenario(), processes, suitable_paces())
    assert compared.differences == []
    for run in (compared.first, compared.second):
        partition = run.final.partitions[0]
        assert (partition.leader, partition.isr) == (1, (1,))
        old_leader = partition.replicas[0]
        assert old_leader.process == "down"
        assert [value for _, _, value in old_leader.records] == ["a", "b", "c"]
        events = [event for played in run.played for _, event in played.events]
        exits = [event for event in events if isinstance(event, BrokerExited)]
        assert exits == [BrokerExited(0, TopicPartition("t", 0), 1, 3, 2)]  # type: ignore[arg-type]
        assert not [event for event in events if isinstance(event, Truncated) and event.broker == 0]
