"""Brokers that come and brokers that die between two looks of the controller, in Kafka's order."""

import pytest
from tests.lab.stories import THREE, TWO, Stage, partition, replica, stage

from tidelog.core.events import PartitionStateWritten

UNCLEAN = TWO.replace("replicas=0,1", "replicas=0,1 unclean.leader.election.enable=true")


def both_at_once(generation: str) -> Stage:
    """Broker 1 was down and comes, leader 0 dies, and the controller hears of both together."""
    of = stage(UNCLEAN, generation)
    of.do("crash 1", "wait isr 0", "hold keeper-reply keeper->2", "crash 0", "restart 1")
    of.do("advance 7s", "wait unregistered 0", "wait registered 1")
    of.events.clear()
    of.do("release keeper-reply keeper->2", "wait leader 1")
    return of


@pytest.mark.parametrize("generation", ["hw", "kip101", "epoch"])
def test_new_brokers_are_handled_before_dead_ones(generation: str) -> None:
    """Broker 1 is alive when the successor of leader 0 is chosen: it takes one election, and one epoch."""
    of = both_at_once(generation)
    written = [event for event in of.events if isinstance(event, PartitionStateWritten)]
    assert [(event.state.leader, event.state.isr) for event in written] == [(1, (1,))]
    assert partition(of).leader_epoch == 2


def test_kraft_fences_first() -> None:
    """Kafka 4 hears of each broker by itself: the partition is without a leader in between."""
    of = both_at_once("elr")
    written = [event.state.leader for event in of.events if isinstance(event, PartitionStateWritten)]
    assert written == [-1, 1]


def test_a_controller_that_is_restarted_follows_again() -> None:
    """Under hw a broker is started again after its old registration has gone: its successor as controller is
    at work by then, and tells it of the brokers before it tells it its role."""
    of = stage(THREE, "hw")
    of.do("crash 2", "restart 2", "wait converged within 30s")
    assert partition(of).isr == (0, 1, 2)


def test_a_broker_that_a_new_controller_finds_is_left_without_a_role_under_hw() -> None:
    """Broker 1 registers while there is no controller. The next one sends it LeaderAndIsr before any
    metadata: 0.10.1's ReplicaManager.makeFollowers finds the leader among no live brokers, and it
    does not repeat the request. Since 0.10.2 metadata come first."""
    ends = {}
    for generation in ("hw", "kip101"):
        of = stage(THREE, generation)
        of.do("crash 1", "wait unregistered 1", "pause 2", "restart 1", "wait registered 1")
        of.do("wait controller 0", "resume 2", "advance 60s")
        ends[generation] = (replica(of, 1).role, sorted(partition(of).isr))
    assert ends == {"hw": ("-", [0, 2]), "kip101": ("follower", [0, 1, 2])}


def test_the_partition_epoch_is_the_version_in_the_keeper() -> None:
    """Also where a leader wrote the state (before KIP-497)."""
    of = stage(TWO, "hw")
    of.do("crash 1", "wait isr 0", "restart 1", "wait isr 0,1")
    assert partition(of).partition_epoch == 2
