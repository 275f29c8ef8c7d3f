"""The switchboard between plain sockets: what passes, how connections end, and that nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest
from tests.cluster.network.wires import (
    FETCH,
    FETCHES,
    PRODUCE,
    REPLIES,
    Link,
    Server,
    Wire,
    attempt,
    eventually,
    exchange,
)

from tidelog.cluster.network.relays.switchboard import Passed, Switchboard

# ---------------------------------------------------------------- passing


def test_requests_and_answers_pass_unchanged(link: Link):
    """However they are cut into packets, and however large they are."""
    one, zero = link()
    body = os.urandom(3_000_000)
    sender = threading.Thread(target=one.ask, args=(PRODUCE, 1, body))
    sender.start()
    assert zero.request() == (PRODUCE, 1, body)
    sender.join()
    zero.answer(1, b"done")
    for byte in b"\0\0\0\x0a\0\x01\0\0\0\0\0\x02ab":
        one.socket.sendall(bytes([byte]))
    assert zero.request() == (FETCH, 2, b"ab")
    zero.answer(2)
    assert [one.reply(), one.reply()] == [(1, b"done"), (2, b"")]


def test_a_route_is_stable_and_its_own(board: Switchboard):
    """Every pair has one port of its own, also before the target has a place."""
    routes = {(a, b): board.route(a, b) for a in range(3) for b in range(3) if a != b}
    assert len(set(routes.values())) == len(routes)
    assert {pair: board.route(*pair) for pair in routes} == routes


def test_a_side_that_does_not_read_holds_up_the_other(board: Switchboard, link: Link):
    """The switchboard does not swell: the sender is slowed down as by a direct connection."""
    one, zero = link()
    one.socket.settimeout(0.2)
    chunk = bytes(1 << 20)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 200:
            one.ask(PRODUCE, sent, chunk)
            sent += 1
    assert sent < 100
    received = board.traffic()[1, 0].bytes
    assert zero.request()[1] == 0
    eventually(lambda: board.traffic()[1, 0].bytes > received, "it is read from again")


def test_what_passes_can_be_watched(board: Switchboard, link: Link):
    """Each message is shown with its channel, its API and its size; requests without an answer confuse
    nothing."""
    seen: list[Passed] = []
    board.on_message = seen.append
    one, zero = link()
    one.ask(PRODUCE, 1, b"acks=0")
    one.ask(FETCH, 2)
    assert [zero.request()[1], zero.request()[1]] == [1, 2]
    zero.answer(2, b"records")
    one.reply()
    eventually(lambda: len(seen) == 3)
    assert [(each.source, each.target, each.kind, each.api, each.size) for each in seen] == [
        (1, 0, "isr", "PRODUCE", 18),
        (1, 0, "fetch", "FETCH", 12),
        (0, 1, "fetch-reply", "FETCH", 15),
    ]
    assert board.traffic()[1, 0].messages == 2
    assert board.traffic()[1, 0].connections == 1


def test_a_watcher_that_fails_breaks_nothing(
    board: Switchboard, link: Link, caplog: pytest.LogCaptureFixture
):
    def fail(_message: Passed) -> None:
        raise ValueError("no")

    board.on_message = fail
    exchange(*link())
    assert "on_message failed" in caplog.text


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff" * 4, b"\0\0\0\x02" * 4])
def test_bytes_that_are_no_frames_end_the_connection(link: Link, junk: bytes):
    one, zero = link()
    one.socket.sendall(junk)
    assert one.ended() == "reset"
    assert zero.ended() == "reset"


# ---------------------------------------------------------------- ends


def test_an_end_is_passed_on_as_it_came(board: Switchboard, link: Link):
    """An orderly end after everything that was sent, a reset as a reset."""
    one, zero = link()
    one.ask(FETCH, 1)
    one.close()
    assert zero.request()[1] == 1
    assert zero.ended() == "end"
    one, zero = link()
    exchange(one, zero)
    board.reset(0, 1)
    assert one.ended() == "reset"
    assert zero.ended() == "reset"
    exchange(*link())


def test_where_nobody_listens_connections_are_refused(board: Switchboard):
    """Before a node has a place, after it left, and until it is back: as without a relay."""
    address = board.route(1, 0)
    assert attempt(address, 10) == "refused"
    server = Server()
    board.place(0, *server.address)
    one, zero = Wire.to(address), server.accept()
    server.close()
    zero.close()
    assert one.ended() == "end"
    assert attempt(address, 10) == "refused"
    with Server(server.address[1]) as again:
        eventually(lambda: attempt(address, 10) == "connected", "it is found again")
        again.accept().close()
    one.close()


def test_a_node_may_come_back_elsewhere(board: Switchboard, link: Link):
    """Open connections go on; new ones lead to the new place."""
    one, zero = link()
    with Server() as elsewhere:
        board.place(0, *elsewhere.address)
        exchange(one, zero)
        new, there = Wire.to(board.route(1, 0)), elsewhere.accept()
        exchange(new, there)
        new.close()
        there.close()


PUPPET = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
held = [server.accept() for _ in range(2)]
sys.stdin.read()
"""


def test_killed_processes_are_noticed_and_stopped_ones_are_not(board: Switchboard):
    """kill -9 behind a relay closes its connections at once. SIGSTOP closes nothing, and new connections are
    accepted by the kernel, as they are without a relay."""
    puppet = subprocess.Popen(
        [sys.executable, "-c", PUPPET], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    ends: list[Wire] = []
    try:
        assert puppet.stdout is not None
        board.place(0, "127.0.0.1", int(puppet.stdout.readline()))
        ends.append(first := Wire.to(board.route(1, 0)))
        eventually(lambda: board.connections == 1)
        puppet.send_signal(signal.SIGSTOP)
        ends.append(second := Wire.to(board.route(1, 0)))
        second.ask(FETCH, 1)
        eventually(lambda: board.traffic()[1, 0].messages == 1)
        assert not first.has_something
        assert not second.has_something
        puppet.kill()
        assert first.ended() in ("end", "reset")
        assert second.ended() in ("end", "reset")
        puppet.wait()  # a dying process may close its connections before the port where it listens
        assert attempt(board.route(1, 0), 10) == "refused"
    finally:
        puppet.kill()
        puppet.communicate()
        for end in ends:
            end.close()


# ---------------------------------------------------------------- from anywhere, and to the end


def test_it_can_be_used_from_many_threads_and_from_its_own(board: Switchboard, link: Link):
    """Also by an observer, in the middle of a message."""
    held: list[int] = []

    def hold_after_the_first(message: Passed) -> None:
        if message.kind == "fetch" and not held:
            board.hold(FETCHES)
            held.append(message.size)

    board.on_message = hold_after_the_first
    one, zero = link()
    one.ask(FETCH, 1)
    assert zero.request()[1] == 1
    one.ask(FETCH, 2)
    eventually(lambda: board.in_flight(FETCHES) == 1)

    def change_rules() -> None:
        for _ in range(50):
            board.cut([(2, 0)])
            board.hold(REPLIES)
            board.release(REPLIES)
            board.heal([(2, 0)])

    threads = [threading.Thread(target=change_rules) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    board.release(None)
    assert zero.request()[1] == 2


def test_nothing_is_left_after_closing():
    """No thread, no socket, whatever state connections and ports were in."""
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    with Server() as zero, Server() as two:
        board = Switchboard(hang_ms=60_000)
        board.place(0, *zero.address)
        board.place(2, *two.address)
        ends = [Wire.to(board.route(1, 0)) for _ in range(5)]
        ends += [zero.accept() for _ in range(5)]
        board.hold(FETCHES)
        ends[0].ask(FETCH, 1)
        eventually(lambda: board.in_flight(FETCHES) == 1)
        ends.append(Wire.to(board.route(1, 2)))
        board.cut([(1, 2)])
        board.delay([(0, 1)], 60_000)
        ends[5].close()
        board.close()
        board.close()
        assert {end.ended() for end in ends[:5]} == {"reset"}
        for end in ends:
            end.close()
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == files
