"""Single messages between plain sockets: held, delivered, dropped."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from tests.cluster.network.wires import FETCH, FETCHES, REPLIES, Link, Server, Wire, eventually, exchange

from tidelog.cluster.network.relays.switchboard import Switchboard
from tidelog.faults.places import Channel
from tidelog.wire.api import Api


def in_flight(board: Switchboard, channel: Channel, count: int) -> bool:
    return board.in_flight(channel) == count


def test_held_messages_wait_and_are_delivered_one_by_one(board: Switchboard, link: Link):
    one, zero = link()
    board.hold(FETCHES)
    for correlation in (1, 2, 3):
        one.ask(FETCH, correlation)
    eventually(partial(in_flight, board, FETCHES, 3))
    assert not zero.has_something
    assert board.deliver(FETCHES)
    assert zero.request()[1] == 1
    assert board.in_flight(FETCHES) == 2
    assert not zero.has_something
    board.release(FETCHES)
    assert [zero.request()[1], zero.request()[1]] == [2, 3]
    assert not board.deliver(FETCHES)


def test_several_can_be_delivered_at_once(board: Switchboard, link: Link):
    """Oldest first over all connections. False if there are fewer."""
    (one, zero), (other_one, other_zero) = link(), link()
    board.hold(FETCHES)
    for wire, correlation in ((one, 1), (other_one, 2), (one, 3)):
        wire.ask(FETCH, correlation)
        eventually(partial(in_flight, board, FETCHES, correlation))
    assert board.deliver(FETCHES, 2)
    assert zero.request()[1] == 1
    assert other_zero.request()[1] == 2
    assert not board.deliver(FETCHES, 2)
    assert zero.request()[1] == 3


def test_only_the_named_channel_is_held(board: Switchboard, link: Link):
    """Replies, other directions and other connections go on."""
    one, zero = link()
    board.hold(REPLIES)
    one.ask(FETCH, 1)
    assert zero.request()[1] == 1
    zero.answer(1)
    eventually(partial(in_flight, board, REPLIES, 1))
    control, controlled = link()
    control.ask(Api.LEADER_AND_ISR, 2)
    assert controlled.request()[1] == 2
    controlled.answer(2)
    assert control.reply()[0] == 2
    assert not one.has_something
    board.release(REPLIES)
    assert one.reply()[0] == 1


def test_a_held_message_holds_up_its_connection(board: Switchboard, link: Link):
    """Answers must come in the order of requests, so nothing overtakes on one connection."""
    one, zero = link()
    board.hold(FETCHES)
    one.ask(FETCH, 1)
    one.ask(Api.LEADER_AND_ISR, 2)
    control = Channel("control", 1, 0)
    eventually(partial(in_flight, board, control, 1))
    assert not board.deliver(control)
    assert not zero.has_something
    board.release(FETCHES)
    assert [zero.request()[1], zero.request()[1]] == [1, 2]


def test_a_message_that_is_partly_through_goes_through(board: Switchboard, link: Link):
    """A hold begins at the next message."""
    one, zero = link()
    one.socket.sendall(b"\0\0\0\x10\0\x01\0\0\0\0\0\x02")
    assert zero.socket.recv(12, 0)
    board.hold(FETCHES)
    one.socket.sendall(b"12345678")
    one.ask(FETCH, 3)
    eventually(partial(in_flight, board, FETCHES, 1))
    assert zero.socket.recv(100) == b"12345678"


def test_a_dropped_message_takes_its_connection_along(board: Switchboard, link: Link):
    """A stream cannot go on without one of its messages; other connections are not touched."""
    (one, zero), (other_one, other_zero) = link(), link()
    assert not board.drop(FETCHES)
    board.hold(FETCHES)
    one.ask(FETCH, 1)
    eventually(partial(in_flight, board, FETCHES, 1))
    assert board.drop(FETCHES)
    assert one.ended() == "reset"
    assert zero.ended() == "reset"
    assert board.in_flight(FETCHES) == 0
    board.release(None)
    exchange(other_one, other_zero)


@pytest.mark.parametrize("end", ["source closes", "target closes", "reset", "cut"])
def test_held_messages_of_a_connection_that_breaks_are_gone(board: Switchboard, link: Link, end: str):
    one, zero = link()
    board.hold(FETCHES)
    one.ask(FETCH, 1)
    eventually(partial(in_flight, board, FETCHES, 1))
    if end == "source closes":
        one.close()
        assert zero.ended() == "end"
    elif end == "target closes":
        zero.close()
        assert one.ended() == "end"
    elif end == "reset":
        board.reset(1, 0)
    else:
        board.cut([(1, 0)])
    eventually(partial(in_flight, board, FETCHES, 0))
    assert board.traffic()[1, 0].dropped == 1


def test_everything_can_be_held(board: Switchboard, link: Link):
    """All channels, or all of one node."""
    one, zero = link()
    board.hold(None)
    one.ask(FETCH, 1)
    eventually(partial(in_flight, board, FETCHES, 1))
    board.release(None)
    assert zero.request()[1] == 1
    board.freeze(0)
    zero.answer(1)
    eventually(partial(in_flight, board, REPLIES, 1))
    board.freeze(1)
    board.thaw(0)
    assert board.in_flight(REPLIES) == 1
    board.thaw(1)
    assert one.reply()[0] == 1


def test_what_waits_is_bounded(board: Switchboard, link: Link):
    """Beyond that the source is held up, and goes on when there is room again."""
    one, zero = link()
    board.hold(FETCHES)
    chunk = bytes(1 << 20)

    def send_all() -> None:
        for number in range(64):
            one.ask(FETCH, number, chunk)

    sender = threading.Thread(target=send_all)
    sender.start()
    eventually(lambda: board.in_flight(FETCHES) >= 16)
    eventually(lambda: board.quiet(1, ms=100))
    assert board.in_flight(FETCHES) < 32
    received: list[int] = []
    while len(received) < 40:
        eventually(lambda: board.deliver(FETCHES))
        received.append(zero.request()[1])
    board.release(FETCHES)
    received += [zero.request()[1] for _ in range(24)]
    assert received == list(range(64))
    sender.join()


def test_quiet_is_when_nothing_moves(board: Switchboard, link: Link):
    assert board.quiet(0, ms=1000)
    one, zero = link()
    exchange(one, zero)
    assert not board.quiet(0, ms=60_000)
    assert not board.quiet(1, ms=60_000)
    assert board.quiet(2, ms=60_000)
    eventually(lambda: board.quiet(0, ms=20))


# ---------------------------------------------------------------- the keeper


@pytest.mark.parametrize(
    ("ping", "pong"),
    [(b'{"ping":1}', b'{"pong":1}'), (b"\xff\xff\xff\xfe\0\0\0\x0b", b"\xff\xff\xff\xfe" + bytes(12))],
    ids=["embedded", "zookeeper"],
)
def test_heartbeats_of_the_keeper_pass_what_is_held(board: Switchboard, ping: bytes, pong: bytes):
    """They keep a session alive and mean nothing else: they are not held, and disturb no quiet."""
    requests, replies = Channel("keeper", 1, "keeper"), Channel("keeper-reply", "keeper", 1)
    with Server() as server:
        board.place("keeper", *server.address)
        one = Wire.to(board.route(1, "keeper"))
        keeper = server.accept()
        board.hold(requests)
        board.hold(replies)
        one.send(b'{"call":1,"operation":[]}')
        keeper.send(b'{"fired":"/x","children":true}')
        eventually(lambda: board.in_flight(requests) == board.in_flight(replies) == 1)
        eventually(lambda: board.quiet(1, ms=50))
        one.send(ping)
        assert keeper.frame() == ping
        keeper.send(pong)
        assert one.frame() == pong
        assert board.quiet(1, ms=50)
        assert board.traffic()[1, "keeper"].messages == 0
        assert board.deliver(replies)
        assert one.frame() == b'{"fired":"/x","children":true}'
        board.release(requests)
        assert keeper.frame() == b'{"call":1,"operation":[]}'
        one.close()
        keeper.close()
