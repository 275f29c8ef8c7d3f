"""The simulated world keeps its promises: keeper quorum, sessions, links, connections, disks and clients."""

import pytest
from tests.lab.stories import THREE, TWO, Stage, after, happenings, marks, play, replica, stage, state, values

from tidelog.core import keeper_paths
from tidelog.core.events import BrokerRegistered
from tidelog.core.types import BrokerId, TopicPartition
from tidelog.faults.places import Channel
from tidelog.lab.world.keeper import Quorum
from tidelog.narrate.run import client_lines
from tidelog.scenario.clients.events import ClientFailure, Outcome
from tidelog.scenario.clients.producer import Producer, ProducerConfig

TP = TopicPartition("t", 0)


def registered(on: Stage) -> list[int]:
    return list(on.after.live_brokers)


def registrations(on: Stage) -> list[int]:
    """Which brokers registered since the world began."""
    return [event.broker for event in on.events if isinstance(event, BrokerRegistered)]


# ---------------------------------------------------------------- the keeper's quorum

MEMBERS = ("k0", "k1", "k2")


def quorum() -> tuple[Quorum, list[tuple[int, int]]]:
    """A quorum alone, and the expiries it asks for: (time, broker)."""
    asked: list[tuple[int, int]] = []
    return Quorum(MEMBERS, 6_000, lambda *_: None, lambda at, broker: asked.append((at, broker))), asked


def apart(*alone: str):
    """Links after these members were cut off from everybody."""
    return lambda a, b: a not in alone and b not in alone


@pytest.mark.parametrize(
    ("alone", "stopped", "serving"),
    [
        ((), (), ["k0", "k1", "k2"]),
        (("k0",), (), ["k1", "k2"]),
        (("k1",), (), ["k0", "k2"]),
        ((), ("k2",), ["k0", "k1"]),
        (("k0", "k1"), (), []),
        (("k0",), ("k1",), []),
        ((), ("k0", "k1", "k2"), []),
    ],
)
def test_only_members_with_a_majority_serve(
    alone: tuple[str, ...], stopped: tuple[str, ...], serving: list[str]
) -> None:
    """A member cut off from the majority serves nothing, and two of three are needed at all. The leading
    member (k1 at first) may be the one that is cut off: another takes over."""
    keeper, _ = quorum()
    for member in stopped:
        keeper.running[member] = False
    keeper.update(apart(*alone), now=0)
    assert keeper.serving(apart(*alone)) == serving


def test_a_broker_with_the_minority_is_not_served() -> None:
    """az1 holds broker 0 and keeper member 0: behind the cut it is disconnected, the others are not."""
    on = stage(THREE)
    on.do("isolate az1")
    assert [on.world.quorum.is_connected(broker) for broker in (0, 1, 2)] == [False, True, True]
    on.do("heal")
    assert [on.world.quorum.is_connected(broker) for broker in (0, 1, 2)] == [True, True, True]


def test_a_broker_needs_only_one_serving_member() -> None:
    """Cut off from the member of its own zone, it talks to another."""
    on = stage(THREE)
    on.do("cut broker-0 keeper-0", "cut broker-0 keeper-2", "advance 20s")
    assert on.world.quorum.is_connected(0)
    assert registered(on) == [0, 1, 2]


def test_a_stopped_member_is_no_loss() -> None:
    """Any one of three may stop; elections go on."""
    for member in (0, 1, 2):
        on = stage(THREE)
        on.do(f"keeper-stop {member}", "crash 0", "wait leader 1")
        assert state(on) == (1, 1, [1, 2])


# ---------------------------------------------------------------- sessions


def test_a_place_may_be_one_node_and_a_node_has_no_link_to_itself() -> None:
    """`isolate 1` cuts all links of broker 1; `heal 1 1` names no link, and mends none."""
    on = stage(THREE)
    on.do("isolate 1", "heal 1 1")
    cut = on.world.network.blocked
    assert {(1, 0), (0, 1), (1, "keeper-0"), ("keeper-2", 1)} <= cut
    assert all(1 in pair for pair in cut)


@pytest.mark.parametrize("fault", ["crash 1", "pause 1", "isolate az2"])
def test_a_session_expires_after_its_time_out(fault: str) -> None:
    """Six seconds after the last sign of life, not before: the clock is the majority's."""
    on = stage(THREE)
    on.do(fault, "advance 5900ms")
    assert registered(on) == [0, 1, 2]
    on.do("advance 200ms")
    assert registered(on) == [0, 2]


def test_a_session_survives_a_short_absence() -> None:
    """Back within the time-out: the same session, no new registration, and the clock starts over."""
    on = stage(THREE)
    for fault, cure in (("pause 1", "resume 1"), ("isolate az2", "heal")):
        on.do(fault, "advance 5s", cure, "advance 3s")
        assert registered(on) == [0, 1, 2]
    assert registrations(on) == [2, 0, 1]
    assert state(on) == (0, 0, [0, 1, 2])


def test_a_session_that_expired_is_replaced() -> None:
    """Back too late: the broker finds its nodes gone and registers again, under a larger broker epoch."""
    on = stage(THREE)
    before = on.core(1).ctx.broker_epoch
    on.do("isolate az2", "advance 10s")
    assert registered(on) == [0, 2]
    on.do("heal", "wait isr 0,1,2")
    assert registrations(on) == [2, 0, 1, 1]
    assert on.core(1).ctx.broker_epoch > before


def test_nothing_expires_without_a_quorum() -> None:
    """No session expires while no majority exists; leader and ISR stay as they were."""
    on = stage(THREE)
    on.do("keeper-stop 0", "keeper-stop 1", "crash 1", "advance 120s")
    assert registered(on) == [0, 1, 2]
    assert state(on) == (0, 0, [0, 1, 2])


def test_a_new_quorum_gives_every_session_its_full_time() -> None:
    """However long there was no quorum: the dead broker's session lives for six more seconds."""
    on = stage(THREE)
    on.do("crash 1", "advance 3s", "keeper-stop 0", "keeper-stop 1", "advance 60s", "keeper-start 1")
    on.do("advance 5900ms")
    assert registered(on) == [0, 1, 2]
    on.do("advance 200ms")
    assert registered(on) == [0, 2]


def test_a_leader_goes_on_without_the_keeper() -> None:
    """Without a quorum records are still taken and replicated; changes of leader and ISR have to wait."""
    on = stage(THREE)
    on.do("keeper-stop 0", "keeper-stop 1", "produce p a", "wait knows 2 a")
    assert [values(on, broker) for broker in (0, 1, 2)] == ["a", "a", "a"]
    on.do("crash 0", "advance 60s")
    assert state(on) == (0, 0, [0, 1, 2])
    on.do("keeper-start 1", "wait leader 1")
    assert state(on) == (1, 1, [1, 2])


def test_a_restarted_process_waits_for_its_former_node() -> None:
    """Restarted faster than its session expires, a broker finds the ephemeral node of its former life; only
    when that is gone can it register and get its role."""
    on = stage(THREE)
    node = on.world.quorum.tree.get(keeper_paths.broker_path(BrokerId(1)))
    on.do("crash 1", "restart 1", "advance 5s")
    assert on.world.quorum.tree.get(keeper_paths.broker_path(BrokerId(1))) == node
    assert registrations(on) == [2, 0, 1]
    on.do("advance 2s")
    assert registrations(on) == [2, 0, 1, 1]
    on.do("wait isr 0,1,2")
    assert replica(on, 1).role == "follower"


def test_an_orderly_shutdown_closes_the_session() -> None:
    """No broker has to wait for a time-out, and a restart registers at once."""
    on = stage(THREE)
    on.do("stop 1")
    assert registered(on) == [0, 2]
    on.do("restart 1")
    assert registered(on) == [0, 1, 2]


# ---------------------------------------------------------------- links


def test_a_cut_loses_what_is_in_flight_and_what_is_sent_later() -> None:
    """Healing brings neither back: both ends have to send again."""
    on = stage(TWO)
    on.do("produce p a", "wait knows 1 a", "hold fetch-reply 0->1", "send p b")
    assert Channel("fetch-reply", 0, 1) in on.world.deliverable()
    on.do("cut broker-0 broker-1", "release all", "advance 2s")
    assert values(on, 1) == "a"
    on.do("heal", "advance 1s")
    assert values(on, 1) == "a b"


def test_a_one_way_cut_stops_one_direction() -> None:
    """Follower 1 hears its leader but cannot ask: the parked fetch is answered, the next one is lost."""
    on = stage(TWO)
    on.do("produce p a", "wait knows 1 a", "cut broker-1 -> broker-0", "send p b", "advance 2s")
    assert marks(on, 1) == (2, 1)
    on.do("send p c", "advance 2s")
    assert (values(on, 0), values(on, 1)) == ("a b c", "a b")
    on.do("heal broker-1 -> broker-0", "advance 1s")
    assert values(on, 1) == "a b c"


def test_a_one_way_cut_of_the_answers() -> None:
    """The other direction: fetches arrive and are booked, answers never do."""
    on = stage(TWO)
    on.do("produce p a", "wait knows 1 a", "cut broker-0 -> broker-1", "send p b", "advance 2s")
    assert (values(on, 0), values(on, 1)) == ("a b", "a")
    on.do("heal", "advance 1s")
    assert values(on, 1) == "a b"


def test_a_cut_between_two_nodes_leaves_the_rest_alone() -> None:
    """Only that link: 2 hears from 0, and both reach the keeper."""
    on = stage(THREE)
    on.do("cut broker-0 broker-1", "send p a", "advance 2s")
    assert [values(on, broker) for broker in (0, 1, 2)] == ["a", "", "a"]
    assert registered(on) == [0, 1, 2]


def test_a_delay_makes_messages_late_and_loses_none() -> None:
    """Two seconds in each direction: the record arrives after two, its receipt after four."""
    on = stage(TWO)
    on.do("produce p a", "wait knows 1 a", "delay broker-0 broker-1 2s")
    producer = on.world.clients["p"]
    assert isinstance(producer, Producer)
    record = producer.send(TP, "b")
    on.world.advance(1_990)
    assert values(on, 1) == "a"
    on.world.advance(20)
    assert (values(on, 1), record.outcome) == ("a b", None)
    on.world.advance(1_980)
    assert record.outcome is None
    on.world.advance(20)
    assert record.outcome is Outcome.OK


def test_order_is_kept_within_a_channel() -> None:
    """Three records of one client arrive in the order they were sent, one by one or all at once."""
    on = stage(THREE.replace("zone=az3", "zone=az3 acks=1"))
    on.do("produce p z", "hold client p->0", "send p a b c", "deliver client p->0")
    assert values(on, 0) == "z a"
    on.do("deliver client p->0")
    assert values(on, 0) == "z a b"
    on.do("release client p->0")
    assert values(on, 0) == "z a b c"


def test_a_shorter_delay_does_not_let_a_message_overtake() -> None:
    """What was sent first on a connection arrives first, even if the later one would travel faster."""
    on = stage(THREE.replace("zone=az3", "zone=az3 acks=1"))
    on.do("produce p z", "delay p 0 5s", "hold all", "send p a", "delay p 0 0s", "send p b", "release all")
    on.do("advance 10s")
    assert values(on, 0) == "z a b"


def test_nothing_is_promised_between_channels() -> None:
    """A held record of p is overtaken by one of q."""
    on = stage(THREE + "    producer q zone=az3 acks=1\n")
    on.do("produce p z", "hold client p->0", "send p a", "produce q b", "release all", "settle")
    assert values(on, 0) == "z b a"


def test_a_dropped_message_is_lost_alone() -> None:
    """Exactly one: the records before and after it arrive."""
    on = stage(THREE.replace("zone=az3", "zone=az3 acks=1"))
    on.do("produce p z", "hold client p->0", "send p a b c")
    on.do("deliver client p->0", "drop client p->0", "release all")
    assert values(on, 0) == "z a c"


def test_a_connection_reset_loses_both_directions_and_both_ends_start_over() -> None:
    """What was in flight is gone; the follower's outstanding fetch is sent again on the new connection."""
    on = stage(TWO)
    on.do("produce p a", "wait knows 1 a", "hold fetch-reply 0->1", "hold fetch 1->0", "send p b")
    assert Channel("fetch-reply", 0, 1) in on.world.deliverable()
    on.do("reset 0 1")
    assert Channel("fetch-reply", 0, 1) not in on.world.deliverable()
    assert Channel("fetch", 1, 0) in on.world.deliverable()
    on.do("release all", "advance 1s")
    assert values(on, 1) == "a b"


def test_a_paused_process_loses_nothing() -> None:
    """Messages wait for it; it goes on where it was."""
    on = stage(TWO)
    on.do("produce p a", "wait knows 1 a", "pause 1", "send p b", "advance 3s")
    assert (values(on, 0), values(on, 1)) == ("a b", "a")
    on.do("resume 1", "advance 1s")
    assert (values(on, 1), on.after.live_brokers) == ("a b", (0, 1, 2))


# ---------------------------------------------------------------- disks


def disk_story(fault: str, flush: str = "roll") -> list[str]:
    """Two records that were synced and two that were not: broker 0 after the fault and after a restart."""
    head = TWO.replace("controller=2", f"controller=2 flush={flush}")
    story = play(head, f"produce p a b\nsync 0\nproduce p c d\n{fault} 0\nrestart 0\nadvance 1s")
    return [values(after(story, f"{fault} 0"), 0), values(after(story, "restart 0"), 0)]


def test_a_crash_keeps_the_page_cache() -> None:
    """kill -9: everything that was appended is still there."""
    assert disk_story("crash") == ["a b c d", "a b c d"]


def test_a_power_cut_takes_exactly_what_was_not_synced() -> None:
    """The synced prefix stays, the tail goes."""
    assert disk_story("power-off") == ["a b", "a b"]


def test_flush_always_loses_nothing() -> None:
    """Every append is synced: a power cut is no worse than a crash."""
    assert disk_story("power-off", flush="always") == ["a b c d", "a b c d"]


def test_a_power_cut_forgets_epochs_beyond_the_log() -> None:
    """The epoch checkpoint is durable; on recovery, what starts at or beyond the log end is dropped."""
    steps = """
        produce p a
        sync 0
        crash 1
        wait isr 0
        produce p b
        power-off 0
        restart 0
        wait leads 0
    """
    story = play(TWO, steps)
    assert replica(after(story, "power-off 0"), 0).epochs == ((0, 0), (1, 1))
    assert replica(story, 0).epochs == ((0, 0), (3, 1))


def test_a_power_cut_silences_what_a_crash_still_delivers() -> None:
    """What a process had sent is in the network when it dies; when the machine loses power it is not."""
    for fault, held in (("crash", "a b"), ("power-off", "a")):
        on = stage(TWO.replace("zone=az3", "zone=az3 acks=1"))
        on.do("produce p a", "wait knows 1 a", "hold fetch-reply 0->1", "send p b")
        on.do(f"{fault} 0", "release all", "settle")
        assert values(on, 1) == held


# ---------------------------------------------------------------- clients in their zones


def test_a_client_sees_the_cluster_through_the_broker_it_reaches() -> None:
    """Behind the cut az1 still believes in leader 0, the others in leader 1; both write, at one offset."""
    head = THREE + "    producer p1 zone=az1 acks=1\n    producer p2 zone=az2 acks=1\n"
    story = play(head, "isolate az1\nwait leads 1\nproduce p1 x\nproduce p2 y")
    assert client_lines(after(story, "produce p1 x")) == ["p1 is told: x ok at offset 0"]
    assert client_lines(after(story, "produce p2 y")) == ["p2 is told: y ok at offset 0"]
    assert (values(story, 0), values(story, 1)) == ("x", "y")


def test_a_client_that_appears_behind_a_cut_shares_it() -> None:
    """It bootstraps from the broker of its zone and gets what that one last knew."""
    on = stage(THREE)
    on.do("isolate az1", "wait leads 1")
    late = on.world.add_producer("late", "az1", ProducerConfig(acks=1))
    record = late.send(TP, "x")
    on.do("advance 1s")
    assert (record.outcome, record.broker) == (Outcome.OK, 0)
    assert values(on, 1) == ""


def test_a_client_keeps_its_cache_until_an_error_tells_it_otherwise() -> None:
    """p knows leader 0 from before; after an election it is refused (6), asks again and finds leader 1."""
    head = THREE.replace("zone=az3", "zone=az3 retries=1")
    steps = """
        produce p a
        wait knows 1 a
        crash 0
        wait leads 1
        restart 0
        wait isr 0,1,2
        produce p b
        elect-preferred
        wait leads 0
        produce p c
    """
    story = play(head, steps)
    attempts = {record.value: (record.attempts, record.broker) for record in story.ledger}
    assert attempts["a"] == (1, 0)
    assert attempts["c"] == (2, 0)
    assert story.verdict.held


FAR = THREE.replace("controller=2", "controller=2 zones=az1,az2,az3,far")
"""A zone without a broker."""


def test_a_client_without_any_reachable_broker_gives_up_in_time() -> None:
    """delivery.timeout.ms bounds the wait; nothing was sent, so the outcome is certain."""
    head = FAR.replace("zone=az3", "zone=far delivery.timeout.ms=4000")
    story = play(head, "cut far az1\ncut far az2\ncut far az3\nproduce p a\nheal\nadvance 1s")
    (record,) = story.ledger
    assert (record.outcome, record.attempts, record.error) == (
        Outcome.FAILED,
        0,
        ClientFailure.DELIVERY_TIMED_OUT,
    )
    assert values(story, 0) == ""


def test_an_isolated_client_and_an_isolated_broker_are_two_things() -> None:
    """A zone that holds nothing but a client can be cut off without an effect on others."""
    head = FAR.replace("zone=az3", "zone=far request.timeout.ms=1000 delivery.timeout.ms=2000")
    story = play(head, "produce p a\nisolate far\nproduce p b\nadvance 60s")
    assert state(story) == (0, 0, [0, 1, 2])
    assert [record.outcome for record in story.ledger] == [Outcome.OK, Outcome.FAILED]
    assert not any("becomes leader" in line for line in happenings(story))
