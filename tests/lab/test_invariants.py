"""Each invariant catches what it claims to catch, shown by a world or a rule that was sabotaged for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidelog.core.events import BecameLeader, ControllerElected, HighWatermarkAdvanced
from tidelog.core.generations import GENERATIONS
from tidelog.core.generations.epoch import LeaderEpochs
from tidelog.core.reasons import WatermarkMoment
from tidelog.core.types import BrokerId, LeaderEpoch, TopicPartition
from tidelog.lab.invariants import INVARIANTS, Watch
from tidelog.lab.play import first_failure, run
from tidelog.lab.world.world import World
from tidelog.scenario.clients.events import RecordRead
from tidelog.scenario.clients.producer import ProducerConfig
from tidelog.scenario.scenario import parse
from tidelog.scenario.setup import Setup, TopicSetup
from tidelog.scenario.violations import Broken

TP = TopicPartition("t", 0)


class Hasty(LeaderEpochs):
    """Sabotage: a leader calls committed whatever it has itself."""

    name = "hasty"

    def committed_offset(self, leader, now):
        return leader.log.end_offset


class NeverTruncates(LeaderEpochs):
    """Sabotage: a follower keeps its log whatever its leader says."""

    name = "never-truncates"

    def begin_following(self, follower):
        follower.fetch()


class Deaf(LeaderEpochs):
    """Sabotage: a follower never asks its leader for anything."""

    name = "deaf"

    def begin_following(self, follower):
        pass


@pytest.fixture(autouse=True)
def sabotaged_generations() -> Iterator[None]:
    saboteurs = {rules.name: rules() for rules in (Hasty, NeverTruncates, Deaf)}
    GENERATIONS.update(saboteurs)
    yield
    for name in saboteurs:
        del GENERATIONS[name]


def broken_names(text: str) -> set[str]:
    return {broken.name for broken in run(parse(text)).broken}


def test_committed_survives_and_isr_holds_committed_catch_a_hasty_leader() -> None:
    """A leader that commits alone breaks the ISR's promise at once, and the log when it dies."""
    found = broken_names("""
scenario hasty
cluster brokers=3 controller=2 generation=hasty
topic t replicas=0,1
producer p zone=az3 acks=all
hold fetch-reply 0->1
produce p a
power-off 0
release all
wait leader 1
restart 0
wait converged within 30s
""")
    assert {"committed-survives", "isr-holds-committed", "promises-kept"} <= found


def test_replicas_agree_catches_a_follower_that_does_not_truncate() -> None:
    """A stale record that stays is seen, at the latest when everything is quiet."""
    found = broken_names("""
scenario stubborn
cluster brokers=3 controller=2 generation=never-truncates
topic t replicas=0,1,2
producer p zone=az1 acks=1
producer q zone=az2 acks=all
produce p a
wait knows 1 a
wait knows 2 a
isolate az1
produce p b
wait leads 1
produce q c
heal
wait isr 0,1,2 within 20s
advance 2s
""")
    assert "replicas-agree" in found


def test_cluster_converges_catches_a_follower_that_never_fetches() -> None:
    """A cluster that does not recover is reported, as the mildest of all findings."""
    failure = first_failure(
        parse("""
scenario deaf
cluster brokers=3 controller=2 generation=deaf
topic t replicas=0,1
producer p zone=az3 acks=all request.timeout.ms=1000 delivery.timeout.ms=1000
produce p a
advance 5s
wait converged within 30s
""")
    )
    assert failure is not None
    assert failure.name == "cluster-converges"


def test_promises_kept_catches_a_lost_acks_1_record() -> None:
    """What was acknowledged and is gone is lost, whatever the acks."""
    found = broken_names("""
scenario acks-1
cluster brokers=3 controller=2
topic t replicas=0,1
producer p zone=az3 acks=1
hold fetch-reply 0->1
produce p a
power-off 0
release all
wait leader 1
restart 0
wait converged within 30s
""")
    assert found == {"promises-kept"}


def watched() -> Watch:
    watch = Watch()
    world = World(Setup(topics=(TopicSetup("t", (0, 1, 2)),)), watch)
    watch.attach(world)
    return watch


def test_watermark_rises_catches_a_watermark_that_falls() -> None:
    """Within one leadership, a watermark that is raised again from below where it stood is caught."""
    watch = Watch()
    world = World(Setup(topics=(TopicSetup("t", (0, 1, 2)),)), watch)
    watch.attach(world)
    producer = world.add_producer("p", "az1", ProducerConfig())
    for value in "ab":
        producer.send(TP, value)
    world.advance(5_000)
    assert not producer.undecided
    assert watch.kept is None
    watch(
        HighWatermarkAdvanced(
            BrokerId(0), TP, LeaderEpoch(0), 0, 1, (BrokerId(0),), WatermarkMoment.FOLLOWER_FETCHED
        )
    )
    assert watch.kept is not None
    assert watch.kept.name == "watermark-rises"


def test_one_leader_per_epoch_catches_two_leaders_and_two_controllers() -> None:
    """Two brokers that lead one epoch are caught, of a partition as of the cluster."""
    watch = watched()
    watch(BecameLeader(BrokerId(0), TP, LeaderEpoch(7), (), 0, 0))
    watch(BecameLeader(BrokerId(0), TP, LeaderEpoch(7), (), 0, 0))
    assert watch.kept is None
    watch(BecameLeader(BrokerId(1), TP, LeaderEpoch(7), (), 0, 0))
    assert watch.kept is not None
    assert watch.kept.name == "one-leader-per-epoch"
    watch = watched()
    watch(ControllerElected(BrokerId(0), 9))
    watch(ControllerElected(BrokerId(1), 9))
    assert watch.kept is not None


def test_reads_are_stable_catches_an_offset_read_twice_differently() -> None:
    """Two consumers that read different values at one offset are caught."""
    watch = watched()
    watch(RecordRead("c", TP, 0, "a", LeaderEpoch(0)))
    watch(RecordRead("d", TP, 0, "a", LeaderEpoch(0)))
    with pytest.raises(Broken, match="reads-are-stable"):
        watch(RecordRead("d", TP, 0, "b", LeaderEpoch(1)))


def test_every_invariant_states_its_claim() -> None:
    """The claim is what a report prints when it breaks."""
    for invariant in INVARIANTS:
        assert invariant.claim
        assert invariant.name == invariant.name.lower()
