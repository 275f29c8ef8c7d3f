"""Up to Kafka 2.6 leaders write their ISR to ZooKeeper themselves, and take no records until it answers."""

import pytest
from tests.lab.stories import Stage, stage

from tidelog.core.events import Truncated
from tidelog.core.types import TopicPartition
from tidelog.scenario.clients.consumer import Consumer
from tidelog.scenario.clients.events import Outcome
from tidelog.scenario.verdict import ledger_of

HEAD = """
    scenario story
    cluster brokers=3 controller=1 replica.lag.time.max.ms=10000
    topic t replicas=0,1,2
    topic u replicas=0,1,2
    producer p zone=az1 acks=1 retries=0 request.timeout.ms=4000
    producer q zone=az1 acks=1 retries=0 request.timeout.ms=4000 topic=u
    consumer c zone=az1
"""
BEFORE_2_7 = ("hw", "kip101")


def isolated(generation: str) -> Stage:
    """Broker 0 leads t and u, is cut off with its clients, and finds that its followers lag."""
    place = stage(HEAD, generation)
    place.do("produce p a", "produce q a", "isolate az1", "advance 40s")
    return place


def ends(place: Stage) -> list[int]:
    """The log ends of t and u on broker 0."""
    replicas = place.core(0).replicas
    return [replicas[TopicPartition(topic, 0)].log_end_offset for topic in "tu"]


@pytest.mark.parametrize("generation", BEFORE_2_7)
def test_a_partition_takes_no_records_while_its_isr_is_written(generation: str) -> None:
    """One of the two: the thread that checks ISRs waits for the keeper, and does not come to the other."""
    place = isolated(generation)
    assert ends(place) == [1, 1]
    place.do("produce p->0 b", "produce q->0 b")
    assert sorted(ends(place)) == [1, 2]
    told = {record.outcome for record in ledger_of(place.world.clients.values()) if record.value == "b"}
    assert told == {Outcome.OK, Outcome.UNKNOWN}


@pytest.mark.parametrize("generation", BEFORE_2_7)
def test_what_has_waited_is_written_and_lost_when_the_keeper_answers(generation: str) -> None:
    """The leader hears first that its ISR is outdated, appends, and then that another one leads."""
    place = isolated(generation)
    place.do("produce p->0 b", "produce q->0 b")
    place.do("heal", "wait isr 0,1,2", "settle")
    assert ends(place) == [1, 1]
    truncated = [event for event in place.events if isinstance(event, Truncated) and event.broker == 0]
    assert [(event.before, event.after) for event in truncated] == [(2, 1)] * 2


@pytest.mark.parametrize("generation", BEFORE_2_7)
def test_consumers_still_read(generation: str) -> None:
    """They need no lock."""
    place = isolated(generation)
    place.do("read c")
    consumer = place.world.clients["c"]
    assert isinstance(consumer, Consumer)
    assert [read.value for read in consumer.reads] == ["a"]


@pytest.mark.parametrize("generation", ["epoch", "elr", "majority"])
def test_later_leaders_do_not_wait(generation: str) -> None:
    """They ask the controller for another ISR (KIP-497), and serve clients meanwhile."""
    place = isolated(generation)
    before = ends(place)
    place.do("produce p->0 b", "produce q->0 b")
    assert ends(place) == [end + 1 for end in before]
