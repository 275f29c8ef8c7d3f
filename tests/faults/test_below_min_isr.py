"""A topic is below its min.insync.replicas: in the search, in the lab and on processes."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import pytest
from tests.faults.test_faults import view

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.spec import ClusterSpec
from tidelog.cluster.testbed import ClusterTestbed
from tidelog.errors import Refusal
from tidelog.faults import SEARCH_FAULTS, TRIAL_FAULTS
from tidelog.faults.schedule import FaultSettings, draw
from tidelog.faults.targets import Targets
from tidelog.kafka_client.admin import Admin
from tidelog.kafka_client.blocking import Client
from tidelog.lab.play import run
from tidelog.lab.search.count import play
from tidelog.lab.search.schedule import FaultChoice
from tidelog.lab.search.search import SearchOptions
from tidelog.pipeline.sweep.grid import GridError, make_grid
from tidelog.scenario.scenario import parse
from tidelog.scenario.setup import SetupError
from tidelog.trials.plan import TrialOptions
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records import Record, build_batch

NAME = "below_min_isr"
ZONES = {1: "az1", 2: "az2", 3: "az3"}

SCENARIO = """\
scenario too-few
title Too few replicas are in sync
cluster brokers=3
topic t replicas=0,1,2 min.insync.replicas=2
producer p acks=all retries=0

produce p a
below-min-isr 1 2
wait isr 0
produce p b
restart 1
wait isr 0,1
produce p c
"""


def test_a_search_offers_every_choice_of_survivors():
    fault = SEARCH_FAULTS[NAME]
    assert [step.args for step in fault.options(view(min_insync=2))] == [(1, 2), (0, 2), (0, 1)]
    assert [step.args for step in fault.options(view(min_insync=3))] == [(2,), (1,), (0,)]
    assert fault.options(view(0, min_insync=2)) == [], "it is below already"
    assert fault.options(view(min_insync=1)) == [], "the last replica would have to die"


def test_a_search_does_it():
    options = SearchOptions(min_insync=2, idempotent=True)
    tally = [
        play(options.scenario(), seed, operations=12, faults=FaultChoice((NAME,), 3)) for seed in range(20)
    ]
    assert {one.outcome for one in tally} == {"held"}
    assert sum(one.faults[NAME] for one in tally) > 20
    assert all(one.measures["unavailable_ms"] for one in tally if one.faults[NAME])


REFUSED = "below_min_isr needs min.insync.replicas of 2 or more, not 1"


def test_a_minimum_of_one_is_refused_where_the_fault_is_named():
    """A search or a trial without a single fault would prove nothing."""
    named = FaultChoice((NAME, "crash"), 3)
    story = parse(SCENARIO.replace("min.insync.replicas=2", "min.insync.replicas=1"))
    for search in (SearchOptions(faults=named), SearchOptions(faults=named, story=story, min_insync=2)):
        with pytest.raises(SetupError, match=REFUSED):
            search.scenario()
    SearchOptions(faults=named, story=parse(SCENARIO)).scenario()
    for trial in (TrialOptions(faults=f"kill,{NAME}", min_insync=1), TrialOptions(faults=NAME, brokers=1)):
        with pytest.raises(Refusal, match=f"^--faults {trial.faults}: {REFUSED}$"):
            trial.check()
    TrialOptions(faults="all", min_insync=1).check()
    with pytest.raises(GridError, match=f"^no combination of this grid can be: {REFUSED}$"):
        make_grid({"faults": [f"crash+{NAME}"]})


@pytest.mark.parametrize("of", [{"generation": ["majority"]}, {"acks": ["1"]}])
def test_a_sweep_plays_it_with_the_minimum_that_was_asked_for(of: dict[str, list[str]]):
    """Also where leaders do not look at the minimum: it decides how many brokers die."""
    grid = make_grid(of | {"min_insync": [1, 2, 3], "faults": [NAME]})
    assert [cell.min_insync for cell in grid.cells] == [2, 3]
    assert [dropped.reason for dropped in grid.dropped] == [REFUSED]
    assert len(make_grid(of | {"min_insync": [1, 2, 3]}).cells) == 1, "of other faults it decides nothing"


@pytest.mark.parametrize("seed", range(20))
def test_a_schedule_leaves_fewer_than_the_minimum_and_holds_it(seed: int):
    faults = draw(seed, FaultSettings((NAME,), min_insync=2, session_ms=3_000), ZONES, 120_000)
    assert faults
    for fault in faults:
        assert len(fault.targets) == 2
        assert fault.duration_ms >= 3_000
    for one, two in itertools.pairwise(faults):
        assert one.end_ms < two.at_ms


def test_all_is_without_it():
    assert not TRIAL_FAULTS[NAME].by_default
    assert TRIAL_FAULTS[NAME].duration_ms(Random(1), 3_000) >= 6_000


def test_a_scenario_does_it():
    """The leader refuses until one replica is back."""
    played = run(parse(SCENARIO))
    outcomes = {sent.value: sent.error for sent in played.ledger}
    assert outcomes == {"a": None, "b": ErrorCode.NOT_ENOUGH_REPLICAS, "c": None}


def test_processes_are_below_it_until_it_is_undone(tmp_path: Path):
    settings = {"replica.lag.time.max.ms": "1000"}
    with Cluster(ClusterSpec(brokers=3, settings=settings), tmp_path) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create("t", partitions=1, replicas=3, settings={"min.insync.replicas": "2"})
        cluster.wait_isr("t", 3)
        leader = cluster.leader_of("t")
        bed, fault = ClusterTestbed(cluster, {}), TRIAL_FAULTS[NAME]
        others = Targets(brokers=tuple(number for number in ZONES if number != leader))
        fault.inject(bed, others)
        cluster.wait_isr("t", 1)
        assert _sent(cluster) is ErrorCode.NOT_ENOUGH_REPLICAS
        fault.undo(bed, others)
        cluster.wait_isr("t", 3)
        assert _sent(cluster) is ErrorCode.NONE


def _sent(cluster: Cluster) -> ErrorCode:
    """What the leader answers to acks=all."""
    leader = next(one for one in cluster.brokers if one.id == cluster.leader_of("t"))
    records = build_batch([Record(timestamp=1, value=b"v")])
    part = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        acks=-1, timeout_ms=5_000, topic_data=[TopicProduceData(name="t", partition_data=[part])]
    )
    with Client(leader.host, leader.port) as client:
        answer = client.ask(Api.PRODUCE, request)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)
