"""Settings of a topic are changed while too few replicas are in sync, under the rules of Kafka 4.1."""

from tests.lab.stories import after, marks, partition, play

HEAD = """
    scenario min-isr
    cluster brokers=4 controller=3 replica.lag.time.max.ms=5000
    topic t replicas=0,1,2 min.insync.replicas=2
    producer all zone=az4 acks=all
    producer one zone=az4 acks=1
"""
STEPS = """
    produce all a
    stop 1
    stop 2
    wait isr 0
    produce one c
    configure t min.insync.replicas=1
    advance 10s
    produce all e
"""


def test_a_smaller_min_isr_commits_with_the_next_append() -> None:
    """The eligible replica is forgotten at once. The leader of Kafka 4 hears of that first and then of the
    setting, so what it holds is committed when something else happens: here, the next record."""
    run = play(HEAD, STEPS, "elr")
    before = partition(after(run, "produce one c"))
    assert (before.elr, before.partition_epoch) == ((2,), 2)
    changed = after(run, "advance 10s")
    assert (partition(changed).elr, partition(changed).partition_epoch) == ((), 3)
    assert marks(changed, 0) == (2, 1)
    assert marks(after(run, "produce all e"), 0) == (3, 3)


def test_permission_for_unclean_elections_waits_for_the_controller_to_look() -> None:
    """Every five minutes, counted from the start of the controller, as in KRaft."""
    head = """
        scenario unclean
        cluster brokers=3 controller=2
        topic t replicas=0,1
        producer all zone=az3 acks=all
    """
    steps = """
        produce all a
        crash 1
        wait isr 0
        crash 0
        wait leader none
        restart 1
        configure t unclean.leader.election.enable=true
        advance 280s
        advance 15s
    """
    run = play(head, steps, "elr")
    assert partition(after(run, "advance 280s")).leader == -1
    elected = after(run, "advance 15s")
    assert partition(elected).leader == 1
    assert 300_000 <= elected.after.at_ms <= 310_000
