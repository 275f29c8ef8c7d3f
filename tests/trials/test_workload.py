"""The load of a trial as data: who sends what where; and what errors mean for a send."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.evidence.journals.clients import FAILED, OK, UNKNOWN
from tidelog.evidence.outcomes import CERTAIN, outcome_of
from tidelog.trials.load.workload import FINAL_READER, Workload, WorkloadError, dealt
from tidelog.wire.errors import ErrorCode


def servers(name: str, zone: str) -> str:
    return f"{zone}.{name}:9092"


def test_producers_differ_in_turn():
    """In zone, in acks, in idempotence and in keys; each is given servers of its own."""
    load = Workload(rate=600, producers=6, acks=(-1, 1, 0))
    plans = load.producer_plans("t", 4, servers)
    assert [plan.name for plan in plans] == ["p1", "p2", "p3", "p4", "p5", "p6"]
    assert [plan.zone for plan in plans] == ["az1", "az2", "az3"] * 2
    assert [plan.acks for plan in plans] == [-1, 1, 0, -1, 1, 0]
    assert [plan.idempotent for plan in plans] == [True, False, False, False, False, False]
    assert {plan.keys > 0 for plan in plans} == {True, False}
    assert {plan.rate for plan in plans} == {100}
    assert plans[1].bootstrap_servers == "az2.p2:9092"


@pytest.mark.parametrize(
    ("idempotence", "expected"), [("on", {True}), ("off", {False}), ("mixed", {True, False})]
)
def test_idempotence_is_for_those_who_wait_for_all(idempotence: Any, expected: set[bool]):
    plans = Workload(idempotence=idempotence).producer_plans("t", 1, servers)
    assert {plan.idempotent for plan in plans} == expected


def test_consumers_read_everything():
    load = Workload(consumers=2)
    plans = load.consumer_plans({"t": 4}, servers)
    assert [(plan.name, plan.zone, plan.topics) for plan in plans] == [
        ("c1", "az1", {"t": 4}),
        ("c2", "az2", {"t": 4}),
    ]
    assert load.final_reader({"t": 4}, servers).name == FINAL_READER


@given(st.floats(0.1, 1e7), st.integers(1, 50), st.integers(0, 20))
def test_processes_are_few_and_everybody_is_in_one(rate: float, producers: int, consumers: int):
    load = Workload(rate=rate, producers=producers, consumers=consumers)
    assert 1 <= load.producer_processes() <= min(4, producers)
    assert 0 <= load.consumer_processes() <= min(4, consumers)
    hands = dealt(list(range(producers)), load.producer_processes())
    assert sorted(number for hand in hands for number in hand) == list(range(producers))
    assert all(hands)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": 0}, "a rate of 0 records/s: give more than 0"),
        ({"producers": 0}, "no producers"),
        ({"idempotence": "on", "acks": (-1, 1)}, "an idempotent producer waits for all replicas"),
        ({"value_bytes": 2_000_000}, "brokers take about 1,000,000"),
    ],
)
def test_what_cannot_be_is_one_line(settings: dict[str, Any], message: str):
    with pytest.raises(WorkloadError, match=message):
        Workload(**settings)


# ---------------------------------------------------------------- outcomes


def test_no_error_is_ok():
    assert outcome_of(0) == OK


@pytest.mark.parametrize("error", CERTAIN, ids=lambda error: error.name)
def test_an_error_about_the_record_itself_is_certain(error: ErrorCode):
    assert outcome_of(int(error)) == FAILED


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,  # also answered after the append
        ErrorCode.NOT_ENOUGH_REPLICAS,  # certain of the last attempt only
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        -192,  # librdkafka: the send timed out
        -195,  # the connection broke
        -152,  # purged from the queue: perhaps after an attempt
        9999,  # an error that is not invented yet
    ],
)
def test_every_other_error_leaves_a_doubt(code: int):
    assert outcome_of(code) == UNKNOWN
