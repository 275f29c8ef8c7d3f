"""Network namespaces: packets are lost as between machines, and nothing is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.network.own_network import interfaces, own_network
from tests.cluster.network.wires import eventually

from tidelog.cluster.network.namespaces import NamespaceError, Namespaces, require_namespaces

# Says what it hears, one line for each; `connect` tells how an attempt ended.
LISTENER = """
import socket, sys
server = socket.create_server((sys.argv[1], 7000))
print("listening", flush=True)
while True:
    caller, _ = server.accept()
    print("called", flush=True)
    for line in caller.makefile():
        print(line.strip(), flush=True)
"""
CALLER = """
import socket, sys
link = None
for line in sys.stdin:
    verb, _, rest = line.strip().partition(" ")
    try:
        if verb == "connect":
            link = socket.create_connection((rest, 7000), timeout=0.5)
        else:
            link.sendall(rest.encode() + b"\\n")
        print("done", flush=True)
    except OSError as error:
        print(type(error).__name__, flush=True)
"""


@pytest.fixture
def machines() -> Iterator[Namespaces]:
    try:
        made = Namespaces(["a", "b", "c"])
    except NamespaceError as error:
        pytest.skip(str(error))
    with made, own_network():
        yield made


class Talk:
    """A process on a machine that listens or calls."""

    def __init__(self, machines: Namespaces, name: str, script: str) -> None:
        self.process: subprocess.Popen[str] = machines.start(
            name,
            [sys.executable, "-c", script, machines.address(name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hears(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def does(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.hears()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def listener(machines: Namespaces) -> Iterator[Talk]:
    """On machine a."""
    talk = Talk(machines, "a", LISTENER)
    assert talk.hears() == "listening"
    yield talk
    talk.close()


@pytest.fixture
def caller(machines: Namespaces) -> Iterator[Talk]:
    """On machine b."""
    talk = Talk(machines, "b", CALLER)
    yield talk
    talk.close()


def test_machines_reach_each_other_until_they_are_cut_off(machines: Namespaces, listener: Talk, caller: Talk):
    """What is sent during a cut arrives after it, for packets are sent again; attempts to connect hang."""
    connect = f"connect {machines.address('a')}"
    assert caller.does(connect) == "done"
    assert listener.hears() == "called"
    assert caller.does("say one") == "done"
    assert listener.hears() == "one"
    machines.cut([("a", "b"), ("b", "a")])
    assert caller.does("say two") == "done"
    other = Talk(machines, "b", CALLER)
    assert other.does(connect) == "TimeoutError"
    other.close()
    machines.heal()
    assert listener.hears() == "two"


def test_one_direction_is_enough_to_keep_connections_from_being_made(
    machines: Namespaces, listener: Talk, caller: Talk
):
    """Either one; and a machine that is not concerned notices nothing."""
    connect = f"connect {machines.address('a')}"
    for pair in (("a", "b"), ("b", "a")):
        machines.cut([pair])
        assert caller.does(connect) == "TimeoutError"
        machines.heal([pair])
    machines.cut([("a", "b")])
    other = Talk(machines, "c", CALLER)
    assert other.does(connect) == "done"
    other.close()
    machines.heal()
    eventually(lambda: caller.does(connect) == "done")


def test_the_host_can_take_part(machines: Namespaces):
    """Through an interface that is there as long as the namespaces are."""
    machines.close()
    before = interfaces()
    with Namespaces(["a"], host=True) as joined:
        listener = Talk(joined, "a", LISTENER)
        assert listener.hears() == "listening"
        caller = Talk(joined, "host", CALLER)
        assert caller.does(f"connect {joined.address('a')}") == "done"
        joined.cut([("host", "a")])
        assert caller.does(f"connect {joined.address('a')}") == "TimeoutError"
        joined.heal()
        caller.close()
        listener.close()
        assert len(interfaces() - before) == 1
    eventually(lambda: interfaces() == before, "the interface is gone")


OWNER = """
import time
from tidelog.cluster.network.namespaces import Namespaces
machines = Namespaces(["a", "b"], host=True)
print(*(holder.pid for holder in machines._holders.values()), flush=True)
time.sleep(600)
"""


def test_nothing_outlives_a_trial_that_is_killed(machines: Namespaces):
    """Not even when it has no chance to tidy up: the kernel does."""
    machines.close()
    before = interfaces()
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        holders = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(holders) == 3
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
    eventually(lambda: not any(_runs(pid) for pid in holders), "the holders end")
    eventually(lambda: interfaces() == before, "the interface is gone")


def _runs(pid: int) -> bool:
    """A process that has ended but was not waited for counts as gone."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text("utf-8")
    except OSError:
        return False


def test_what_was_started_ends_with_the_namespaces(machines: Namespaces):
    process = machines.start("a", ["sleep", "600"])
    machines.close()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("platform", "user", "found", "message"),
    [
        ("darwin", 0, True, "network namespaces are Linux's: use the switchboard here"),
        ("linux", 7, True, "network namespaces need root: run it as root, or use the switchboard"),
        ("linux", 0, False, "ip and nsenter and unshare not found: install iproute2 and util-linux"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, platform: str, user: int, found: bool, message: str
):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(shutil, "which", lambda command: command if found else None)
    with pytest.raises(NamespaceError) as caught:
        require_namespaces()
    assert str(caught.value) == message
