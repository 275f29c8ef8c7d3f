"""A loop that has no time keeps its session; one that hangs does not."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.processes import PATIENCE_SECONDS
from tests.keeper import keeper_process

from tidelog.core.keeper_port import Get, SessionStarted
from tidelog.keeper.client import Notice
from tidelog.keeper.embedded.client import RemoteConnection
from tidelog.keeper.embedded.heartbeat import Heartbeat

SESSION_MS = 1_000
BEAT = b"beat"


def eventually(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def test_a_busy_loop_keeps_its_session(tmp_path: Path) -> None:
    """It does not turn for three times the time-out: the keeper has heard of it all the same."""
    with subprocess.Popen(
        [sys.executable, keeper_process.__file__, str(tmp_path)], stdout=subprocess.PIPE
    ) as keeper:
        try:
            assert keeper.stdout is not None
            connection = RemoteConnection("127.0.0.1", int(keeper.stdout.readline()), SESSION_MS)
            heard: list[Notice] = []
            connection.start(heard.append)
            await connection.request(Get("/"), PATIENCE_SECONDS)
            time.sleep(3 * SESSION_MS / 1000)  # this is the fault, not the cure
            await connection.request(Get("/"), PATIENCE_SECONDS)
            assert [type(notice) for notice in heard] == [SessionStarted]
            await connection.close()
        finally:
            keeper.kill()


def test_a_loop_that_hangs_is_not_vouched_for() -> None:
    """One heartbeat keeps sending; that of a loop that has not run for too long sends nothing."""
    with ExitStack() as stack:
        ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
        busy = Heartbeat(ours.fileno(), BEAT, 0.01)
        hanging = Heartbeat(ours.fileno(), BEAT, 0.01, vouched_for_s=0.0)
        stack.callback(busy.stop)
        stack.callback(hanging.stop)
        eventually(lambda: busy.spoken >= 5)
        assert hanging.spoken == 0
        assert theirs.recv(2 * len(BEAT)) == 2 * BEAT


def test_the_descriptor_is_its_own() -> None:
    """After the stop it does not write to a reused descriptor number; a closed peer is no problem."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        beating = Heartbeat(ours.fileno(), BEAT, 0.01)
        eventually(lambda: beating.spoken >= 1)
        theirs.close()
        ours.close()
        beating.stop()
        beating.stop()
