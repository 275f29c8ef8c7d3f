"""Batches of several records in the lab: written, read, truncated and retried as one."""

from random import Random

import pytest
from tests.effort import tries
from tests.lab.stories import after, log, marks, play, values

from tidelog.core.generations import GENERATIONS
from tidelog.lab.search.schedule import DECIDERS, Schedule
from tidelog.lab.search.search import SearchOptions
from tidelog.lab.world.world import Stuck
from tidelog.scenario.clients.events import Outcome
from tidelog.scenario.violations import Broken

HEAD = """
    scenario batches
    cluster brokers=3 controller=2
    topic t replicas=0,1
    producer p zone=az3 batch.records=3{more}
    consumer c zone=az3
"""


@pytest.mark.parametrize("generation", ["hw", "kip101", "epoch"])
def test_records_that_are_sent_together_are_one_batch(generation: str) -> None:
    """Up to batch.records of them; one answer, and each record its own offset."""
    run = play(HEAD.format(more=""), "produce p a b c d\nwait knows 1 d\nread c\n", generation)
    assert [(sent.value, sent.outcome, sent.offset) for sent in run.ledger] == [
        (value, Outcome.OK, offset) for offset, value in enumerate("abcd")
    ]
    assert [values(run, broker) for broker in (0, 1)] == ["a b c d"] * 2
    assert [record[:1] for record in log(run, 1)] == [(0,), (1,), (2,), (3,)]
    first = after(run, "produce p a b c d")
    assert marks(first, 0) == (4, 4)


def test_a_repeated_batch_is_not_written_twice() -> None:
    """The sequence number of its first record, and their number: the leader knows the batch again."""
    steps = """
        hold client-reply 0->p
        send p a b c
        advance 3s
        release client-reply 0->p
        wait answered
        produce p d
    """
    idempotent = " acks=all retries=5 enable.idempotence=true request.timeout.ms=2000"
    run = play(HEAD.format(more=idempotent), steps)
    assert values(run, 0) == "a b c d"
    assert {sent.outcome for sent in run.ledger} == {Outcome.OK}
    assert [sent.offset for sent in run.ledger] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("generation", "old_leader"), [("hw", "a b c z"), ("kip101", "a x y z"), ("epoch", "a x y z")]
)
def test_a_batch_that_begins_below_a_followers_end(generation: str, old_leader: str) -> None:
    """Broker 0 has committed b and c alone, and broker 1 has written x, y and z over them after an unclean
    election. Under hw broker 0 keeps what is below its watermark, 3, and takes z of the batch that begins
    at 1; with epochs it truncates first."""
    head = HEAD.format(more="").replace("replicas=0,1", "replicas=0,1 unclean.leader.election.enable=true")
    steps = """
        produce p a
        wait knows 1 a
        advance 5s
        crash 1
        wait isr 0
        produce p b c
        advance 5s
        crash 0
        wait leader none
        restart 1
        wait leader 1
        produce p x y z
        restart 0
        wait isr 0,1
        wait holds 0 z
    """
    run = play(head, steps, generation)
    assert [values(run, broker) for broker in (0, 1)] == [old_leader, "a x y z"]
    assert marks(run, 0)[0] == 4


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_search_with_batches_reaches_no_state_that_the_rules_exclude(generation: str) -> None:
    """Records may be lost where the rules lose them; no broker dies."""
    for seed in range(tries(40)):
        acks = (-1, 1, 0)[seed % 3]
        options = SearchOptions(generation=generation, unclean=bool(seed % 2), acks=acks, batch_records=3)
        trial = Schedule(options.scenario(), options.operations, options.faults)
        trial.begin()
        try:
            DECIDERS["random"](trial, Random(seed))
            trial.finish()
        except (Broken, Stuck):
            continue
