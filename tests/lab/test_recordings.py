"""The same schedules as were played on real clusters, compared step by step with what those did.

The literals are copied from recordings of Apache Kafka 0.10.1.0 and 2.7.1 in ZooKeeper mode, named at each
test. Records are (offset, leader epoch, value), epochs are (epoch, start offset) as in the
``leader-epoch-checkpoint`` file.
"""

from tests.lab.stories import after, happenings, known, log, marks, play, replica, state

from tidelog.narrate.run import client_lines
from tidelog.scenario.run import Run

A0, B0, C0 = (0, 0, "a"), (1, 0, "b"), (2, 0, "c")


def epochs(of, broker: int) -> list[tuple[int, int]]:
    return list(replica(of, broker).epochs)


def test_hw_truncation_in_0_10() -> None:
    """Recording c-hw-truncation-010: an acknowledged record is truncated on restart, that replica is elected,
    and both replicas end in the ISR with different records at offset 2."""
    run = known("hw-divergence", "hw")
    a, b, c, d = ((offset, None, value) for offset, value in ((0, "a"), (1, "b"), (2, "c"), (2, "d")))

    step_1 = after(run, "crash 1")  # c is acknowledged, follower 1 is dead with c in its log and HW 2 on disk
    assert client_lines(after(run, "deliver fetch 1->0")) == ["p is told: c ok at offset 2"]
    assert (state(step_1), marks(step_1, 0), marks(step_1, 1)) == ((0, 0, [0, 1]), (3, 3), (3, 2))

    step_3 = after(run, "wait follows 1 0")  # broker 1 is controller and follows the frozen leader
    assert (state(step_3), step_3.after.controller) == ((0, 0, [0, 1]), 1)
    assert (log(step_3, 0), log(step_3, 1)) == ([a, b, c], [a, b])

    step_4 = after(run, "wait leader 1")  # a clean election
    assert (state(step_4), marks(step_4, 1)) == ((1, 1, [1]), (2, 2))

    step_5 = after(run, "produce q d")
    assert client_lines(step_5) == ["q is told: d ok at offset 2"]
    assert (log(step_5, 1), marks(step_5, 1)) == ([a, b, d], (3, 3))

    assert state(run) == (1, 1, [1, 0])  # step 6: broker 0 is back
    assert (log(run, 0), log(run, 1)) == ([a, b, c], [a, b, d])
    assert (marks(run, 0), marks(run, 1)) == ((3, 3), (3, 3))


def test_the_same_schedule_in_2_7() -> None:
    """Recording c-hw-truncation-27: nothing is truncated, nothing is lost, d follows c."""
    run = known("hw-divergence", "epoch")
    d = (3, 1, "d")
    step_3 = after(run, "wait follows 1 0")
    assert (state(step_3), step_3.after.controller) == ((0, 0, [0, 1]), 1)
    assert log(step_3, 1) == [A0, B0, C0]
    assert replica(step_3, 1).believes == {"leader": 0, "leader_epoch": 0, "isr": (0, 1)}

    step_4 = after(run, "wait leader 1")
    assert (state(step_4), marks(step_4, 1)) == ((1, 1, [1]), (3, 3))
    assert epochs(step_4, 1) == [(0, 0), (1, 3)]

    step_5 = after(run, "produce q d")
    assert client_lines(step_5) == ["q is told: d ok at offset 3"]

    assert state(run) == (1, 1, [1, 0])
    for broker in (0, 1):
        assert log(run, broker) == [A0, B0, C0, d]
        assert epochs(run, broker) == [(0, 0), (1, 3)]
        assert marks(run, broker) == (4, 4)
        assert replica(run, broker).believes == {"leader": 1, "leader_epoch": 1, "isr": (1, 0)}


def test_hw_loss_ends_like_the_recordings() -> None:
    """The first four steps of both recordings, and the return of broker 0 without any further record."""
    old, new = known("hw-loss", "hw"), known("hw-loss", "epoch")
    assert state(old) == state(new) == (1, 1, [1, 0])
    assert [log(old, broker) for broker in (0, 1)] == [[(0, None, "a"), (1, None, "b")]] * 2
    assert [log(new, broker) for broker in (0, 1)] == [[A0, B0, C0]] * 2


ISOLATED_LEADER = """
    scenario recorded
    cluster brokers=3 controller=1 replica.lag.time.max.ms=10000
    topic t replicas=0,1,2
    producer one0 zone=az1 acks=1
    producer all0 zone=az1 acks=all request.timeout.ms=3000 delivery.timeout.ms=3000
    producer one1 zone=az2 acks=1
    producer all1 zone=az2 acks=all
"""


def isolated_leader() -> Run:
    """Recording d-isolated-leader-ctl1, with its clients and its order of events."""
    steps = """
        produce all0 a b
        wait knows 1 b
        wait knows 2 b
        isolate az1
        produce one0 c
        wait leads 1
        produce one0 d
        produce one1 x y
        produce all1 z
        produce all0 e
        advance 15s
        produce one0 f
        produce all0 g
        heal
        wait isr 0,1,2
        wait converged within 30s
        elect-preferred
        wait converged within 30s
        produce all0 h
        wait converged within 30s
    """
    return play(ISOLATED_LEADER, steps)


def test_isolated_leader_in_2_7_while_it_is_cut_off() -> None:
    """Recording d-isolated-leader-ctl1, steps 1 to 5: two leaders, epoch 0 → 1 (the source document
    says 2); acks=1 is answered on both sides, acks=all only by the majority; the old leader cannot shrink its
    ISR without the keeper."""
    run = isolated_leader()
    assert state(after(run, "produce all0 a b")) == (0, 0, [0, 1, 2])
    assert client_lines(after(run, "produce one0 c")) == ["one0 is told: c ok at offset 2"]

    step_3 = after(run, "wait leads 1")
    assert (state(step_3), step_3.after.live_brokers) == ((1, 1, [1, 2]), (1, 2))
    assert [epochs(step_3, broker) for broker in (0, 1, 2)] == [[(0, 0)], [(0, 0), (1, 2)], [(0, 0)]]
    assert replica(step_3, 0).believes == {"leader": 0, "leader_epoch": 0, "isr": (0, 1, 2)}
    assert replica(step_3, 1).believes == {"leader": 1, "leader_epoch": 1, "isr": (1, 2)}
    assert (marks(step_3, 0)[1], marks(step_3, 1)[1]) == (2, 2)

    assert client_lines(after(run, "produce one0 d")) == ["one0 is told: d ok at offset 3"]
    assert client_lines(after(run, "produce one1 x y")) == [
        "one1 is told: x ok at offset 2",
        "one1 is told: y ok at offset 3",
    ]
    assert client_lines(after(run, "produce all1 z")) == ["all1 is told: z ok at offset 4"]
    assert client_lines(after(run, "produce all0 e")) == ["all0 is told: e failed, REQUEST_TIMED_OUT (7)"]

    assert client_lines(after(run, "produce one0 f")) == ["one0 is told: f ok at offset 5"]
    step_5 = after(run, "produce all0 g")
    assert client_lines(step_5) == ["all0 is told: g failed, REQUEST_TIMED_OUT (7)"]
    assert [value for _, _, value in log(step_5, 0)] == list("abcdefg")
    assert [value for _, _, value in log(step_5, 1)] == list("abxyz")
    assert (marks(step_5, 0), marks(step_5, 1)) == ((7, 2), (5, 5))
    assert replica(step_5, 0).believes == {"leader": 0, "leader_epoch": 0, "isr": (0, 1, 2)}


def test_isolated_leader_in_2_7_after_the_healing() -> None:
    """Recording d-isolated-leader-ctl1, steps 6 to 8: broker 0 truncates to 2 and rejoins as the last of the
    ISR, the preferred election costs one epoch, and followers learn that epoch with its first record only."""
    run = isolated_leader()
    shared = [A0, B0, (2, 1, "x"), (3, 1, "y"), (4, 1, "z")]

    step_6 = after(run, "wait converged within 30s")
    assert "0 truncates its log from 7 to 2: epoch 0 ends at 2 on the leader" in happenings(
        after(run, "heal")
    )
    assert state(step_6) == (1, 1, [1, 2, 0])
    assert [log(step_6, broker) for broker in (0, 1, 2)] == [shared] * 3
    assert [epochs(step_6, broker) for broker in (0, 1, 2)] == [[(0, 0), (1, 2)]] * 3

    step_7 = after(run, "wait converged within 30s", nth=2)
    assert state(step_7) == (0, 2, [1, 2, 0])
    assert epochs(step_7, 0) == [(0, 0), (1, 2), (2, 5)]
    assert [epochs(step_7, broker) for broker in (1, 2)] == [[(0, 0), (1, 2)]] * 2

    assert client_lines(after(run, "produce all0 h")) == ["all0 is told: h ok at offset 5"]
    assert [log(run, broker) for broker in (0, 1, 2)] == [[*shared, (5, 2, "h")]] * 3
    assert [epochs(run, broker) for broker in (0, 1, 2)] == [[(0, 0), (1, 2), (2, 5)]] * 3
    assert [marks(run, broker) for broker in (0, 1, 2)] == [(6, 6)] * 3


def test_isolate_leader_zone_ends_like_the_recording() -> None:
    """d-isolated-leader-ctl1 again, for the scenario of the catalogue, whose records are fewer."""
    run = known("isolate-leader-zone", "epoch")
    assert state(after(run, "wait leader 1")) == (1, 1, [1, 2])
    assert state(after(run, "wait isr 1,2,0")) == (1, 1, [1, 2, 0])
    assert state(run) == (0, 2, [1, 2, 0])
    assert epochs(run, 0) == [(0, 0), (1, 2), (2, 4)]
    assert [epochs(run, broker) for broker in (1, 2)] == [[(0, 0), (1, 2)]] * 2


def test_leader_and_controller_isolated_together() -> None:
    """Seen on real 2.7.1: epoch 0 → 2, and one more for the preferred election."""
    run = known("isolate-leader-and-controller", "epoch")
    assert state(after(run, "wait leader 2")) == (2, 2, [2, 1])
    assert state(run) == (0, 3, [2, 1, 0])
    assert epochs(run, 0) == [(0, 0), (2, 2), (3, 4)]


def test_unclean_election_in_2_7() -> None:
    """Recording b-unclean-loss-27: epochs 0 → 1 (follower dies) → 2 (no leader) → 3 (unclean leader); the
    acknowledged c is lost."""
    run = known("unclean-election", "epoch")
    c, d = (2, 1, "c"), (2, 3, "d")
    step_2 = after(run, "wait isr 0")
    assert (state(step_2), epochs(step_2, 0)) == ((0, 1, [0]), [(0, 0), (1, 2)])

    step_3 = after(run, "produce p c")
    assert client_lines(step_3) == ["p is told: c ok at offset 2"]
    assert (log(step_3, 0), marks(step_3, 0)) == ([A0, B0, c], (3, 3))

    assert state(after(run, "wait leader none")) == (-1, 2, [0])  # step 4

    step_5 = after(run, "produce p x")  # broker 1 is back and may not lead
    assert state(step_5) == (-1, 2, [0])
    assert replica(step_5, 1).believes == {"leader": -1, "leader_epoch": 2, "isr": (0,)}

    step_6 = after(run, "wait leader 1")
    assert (state(step_6), epochs(step_6, 1), marks(step_6, 1)) == ((1, 3, [1]), [(0, 0), (3, 2)], (2, 2))

    assert client_lines(after(run, "produce p d")) == ["p is told: d ok at offset 2"]  # step 7

    assert state(run) == (1, 3, [1, 0])  # step 8
    for broker in (0, 1):
        assert log(run, broker) == [A0, B0, d]
        assert epochs(run, broker) == [(0, 0), (3, 2)]
        assert marks(run, broker) == (3, 3)


def test_preferred_election_after_the_unclean_one() -> None:
    """Recording b-unclean-loss-27, step 9: leader 0 in epoch 4 from offset 3, which only it writes down."""
    head = """
        scenario recorded
        cluster brokers=3 controller=2
        topic t replicas=0,1
        producer p zone=az3
    """
    steps = """
        produce p a b
        crash 1
        wait isr 0
        produce p c
        crash 0
        wait leader none
        restart 1
        advance 2s
        configure t unclean.leader.election.enable=true
        wait leads 1
        produce p d
        restart 0
        wait isr 0,1
        elect-preferred
        wait converged within 10s
    """
    run = play(head, steps)
    assert state(run) == (0, 4, [1, 0])
    assert [epochs(run, broker) for broker in (0, 1)] == [[(0, 0), (3, 2), (4, 3)], [(0, 0), (3, 2)]]
