"""Cut and slow links between plain sockets: what each side sees, and when."""

from __future__ import annotations

import time

from tests.cluster.network.wires import (
    BOTH,
    FETCH,
    FETCHES,
    HANG_MS,
    Attempt,
    Link,
    Server,
    attempt,
    eventually,
    exchange,
)

from tidelog.cluster.network.relays.switchboard import Switchboard

# ---------------------------------------------------------------- cuts


def test_a_cut_swallows_both_ways_and_healing_resets(board: Switchboard, link: Link):
    """Neither side hears of the cut. When it heals, a connection that lost something is reset."""
    one, zero = link()
    exchange(one, zero)
    board.cut(BOTH)
    one.ask(FETCH, 8)
    zero.answer(8)
    eventually(lambda: board.traffic()[1, 0].lost_bytes == 12 and board.traffic()[0, 1].lost_bytes == 8)
    assert not one.has_something
    assert not zero.has_something
    board.heal()
    assert one.ended() == "reset"
    assert zero.ended() == "reset"
    exchange(*link())


def test_a_cut_that_nobody_noticed_breaks_nothing(board: Switchboard, link: Link):
    one, zero = link()
    exchange(one, zero)
    board.cut(BOTH)
    board.heal(BOTH)
    exchange(one, zero, 8)


def test_one_direction_can_be_cut(board: Switchboard, link: Link):
    """The other goes on, but no new connection can be made: that takes both."""
    one, zero = link()
    one.ask(FETCH, 1)
    zero.request()
    board.cut([(1, 0)])
    zero.answer(1)
    assert one.reply()[0] == 1
    one.ask(FETCH, 2)
    eventually(lambda: board.traffic()[1, 0].lost_bytes)
    assert attempt(board.route(1, 0), 0.02) == "hangs"
    assert attempt(board.route(0, 1), 0.02) != "connected"
    assert not zero.has_something
    board.heal([(1, 0)])
    assert zero.ended() == "reset"


def test_a_lost_connection_stays_mute_until_both_directions_work(board: Switchboard, link: Link):
    """Healed one way only, it has a hole that does not show: nothing more comes through."""
    one, zero = link()
    board.cut(BOTH)
    one.ask(FETCH, 1)
    eventually(lambda: board.traffic()[1, 0].lost_bytes == 12)
    board.heal([(1, 0)])
    one.ask(FETCH, 2)
    eventually(lambda: board.traffic()[1, 0].lost_bytes == 24)
    assert not zero.has_something
    board.heal()
    assert zero.ended() == "reset"


def test_half_a_message_at_the_cut_is_lost_with_the_rest(board: Switchboard, link: Link):
    one, zero = link()
    one.socket.sendall(b"\0\0\0\x10\0\x01\0\0\0\0\0\x02")
    assert zero.socket.recv(12)
    board.cut(BOTH)
    one.socket.sendall(b"12345678")
    eventually(lambda: board.traffic()[1, 0].lost_bytes == 8)
    board.heal()
    assert zero.ended() == "reset"


def test_an_end_during_a_cut_is_heard_of_when_it_heals(board: Switchboard, link: Link):
    """The news of a dead process is a packet, too."""
    one, zero = link()
    exchange(one, zero)
    board.cut(BOTH)
    zero.close()
    one.ask(FETCH, 8)
    eventually(lambda: board.traffic()[1, 0].lost_bytes)
    assert not one.has_something
    board.heal()
    assert one.ended() == "reset"


def test_attempts_during_a_cut_hang_and_then_are_refused(board: Switchboard, link: Link):
    """Like those to a host that the network does not reach; after healing they succeed."""
    board.cut(BOTH)
    with Attempt(board.route(1, 0)) as hanging:
        assert hanging.outcome(HANG_MS / 2000) == "hangs"
        eventually(lambda: attempt(board.route(1, 0), 0.01) == "refused")
        assert hanging.outcome(30) == "refused"
    board.heal()
    exchange(*link())


def test_an_attempt_that_hangs_succeeds_if_the_cut_heals_in_time(zero: Server):
    """The kernel repeats it; nothing was refused."""
    with Switchboard(hang_ms=60_000) as board:
        board.place(0, *zero.address)
        board.cut([(1, 0)])
        with Attempt(board.route(1, 0)) as hanging:
            assert hanging.outcome(0.02) == "hangs"
            board.heal()
            assert hanging.outcome(30) == "connected"


def test_a_client_that_appears_in_a_cut_off_zone_is_cut_off(board: Switchboard, link: Link):
    """As in the lab: it shares the fate of the brokers of its zone."""
    board.cut(BOTH)
    board.add("p", "az2")
    board.add("q", "az3")
    assert attempt(board.route("p", 0), 0.02) != "connected"
    assert attempt(board.route("q", 0), 10) == "connected"


# ---------------------------------------------------------------- slow links


def test_a_delay_holds_every_message_back_and_keeps_their_order(board: Switchboard, link: Link):
    """Each takes at least so much longer, the end of the stream included."""
    one, zero = link()
    board.delay([(1, 0)], 50)
    begun = time.monotonic()
    for correlation in range(20):
        one.ask(FETCH, correlation)
    one.close()
    assert [zero.request()[1] for _ in range(20)] == list(range(20))
    assert zero.ended() == "end"
    assert time.monotonic() - begun >= 0.049
    board.delay([(1, 0)], 0)
    exchange(*link())


def test_a_delay_that_ends_lets_nothing_overtake(board: Switchboard, link: Link):
    one, zero = link()
    board.delay([(1, 0)], 100)
    one.ask(FETCH, 1)
    eventually(lambda: board.in_flight(FETCHES) == 1)
    board.delay([(1, 0)], 0)
    one.ask(FETCH, 2)
    assert [zero.request()[1], zero.request()[1]] == [1, 2]
