"""`tidelog status`, `kill`, `pause`, `resume` and `restart` on a running cluster."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS, is_alive
from tests.cli.calling import COMMAND, Answer, call, environment, refused
from tests.cli.clusters import READY, Up, eventually

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.conditions import is_stopped
from tidelog.cluster.remote import Action, RemoteControl, perform

pytestmark = pytest.mark.slow


@dataclass
class Controlled:
    """A cluster in this process that takes commands, and the commands."""

    cluster: Cluster
    done: list[tuple[Action, int]] = field(default_factory=list)

    def __call__(self, *arguments: str) -> Answer:
        return call(*arguments, "--data-dir", self.cluster.data_dir, columns=140)

    def says(self, *arguments: str) -> str:
        answer = self(*arguments)
        assert (answer.code, answer.err) == (0, ""), answer
        return answer.out

    def state_of(self, number: int) -> str:
        brokers = self("status", "--json").json["brokers"]
        return str(next(each["state"] for each in brokers if each["id"] == number))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controlled]:
    # A path that no address of a socket could hold.
    folder = tmp_path_factory.mktemp("x" * 120)
    with Cluster(brokers=3, data_dir=folder) as cluster:
        controlled = Controlled(cluster)
        remote = RemoteControl(
            cluster.supervisor, lambda action, number: controlled.done.append((action, number))
        )
        cluster.run(remote.start())
        try:
            cluster.topic("events", partitions=3)
            yield controlled
        finally:
            cluster.run(_stopped(remote))


async def _stopped(remote: RemoteControl) -> None:
    remote.stop()


@pytest.fixture
def controlled(running: Controlled) -> Iterator[Controlled]:
    """In sync before the test, and again after it."""
    running.done.clear()
    yield running
    running.cluster.heal()
    running.cluster.wait_in_sync()


def test_status_shows_the_brokers_and_what_they_hold(controlled: Controlled):
    shown = controlled.says("status").splitlines()
    assert shown[0].startswith("3 brokers · generation epoch · up ")
    assert shown[1] == f"bootstrap.servers={controlled.cluster.bootstrap_servers}"
    rows = [line.split() for line in shown[3:6]]
    for row, broker in zip(rows, controlled.cluster.brokers, strict=True):
        assert row[:2] == [str(broker.id), "running,"] or row[:2] == [str(broker.id), "running"]
        assert broker.address in row
        assert str(controlled.cluster.pids[broker.id]) in row
    assert shown[6].endswith("all replicas are in sync")
    found = controlled("status", "--json").json
    assert found["well"] is True
    assert sum(broker["leads"] for broker in found["brokers"]) == found["partitions"]["ok"]
    assert found["controller"] in (1, 2, 3)


def test_a_killed_broker_is_down_until_it_is_restarted(controlled: Controlled):
    pid = controlled.cluster.pids[2]
    assert controlled.says("kill", "2") == "killed broker 2\n"
    assert not is_alive(pid)
    answer = controlled("status")
    assert answer.code == 1
    assert "to undo: tidelog restart 2" in answer.out
    assert controlled.state_of(2) == "down"
    assert refused(controlled("kill", "2")).startswith("broker 2 is not running")
    said = controlled.says("restart", "2")
    assert said.startswith("broker 2 serves after ")
    assert controlled.cluster.pids[2] != pid
    waited = controlled("status", "--wait", str(PATIENCE_SECONDS))
    assert waited.code == 0, waited
    assert waited.err == "" or waited.err.startswith("waiting: ")
    assert controlled.done == [(Action.KILL, 2), (Action.RESTART, 2)]


def test_status_waits_no_longer_than_asked(controlled: Controlled):
    controlled.says("kill", "1")
    answer = controlled("status", "--wait", "0.3")
    assert answer.code == 1
    assert answer.err.splitlines()[0] == "waiting: broker 1 is down"


def test_a_paused_broker_is_stopped_and_goes_on(controlled: Controlled):
    pid = controlled.cluster.pids[3]
    assert controlled.says("pause", "3") == "paused broker 3\n"
    assert is_stopped(pid)
    assert controlled.state_of(3) == "paused"
    assert refused(controlled("pause", "3")) == "broker 3 is paused already"
    assert "to undo: tidelog resume 3" in controlled("status").out
    assert controlled.says("resume", "all") == "resumed broker 3\n", "the others are not paused"
    assert refused(controlled("resume", "all")) == "broker 1 is not paused"
    assert controlled.state_of(3) == "running"
    assert refused(controlled("resume", "3")) == "broker 3 is not paused"


def test_a_paused_broker_can_be_restarted(controlled: Controlled):
    controlled.says("pause", "1")
    assert controlled.says("restart", "1").startswith("broker 1 serves after ")
    assert controlled.state_of(1) == "running"


def test_a_broker_is_named_by_what_it_leads(controlled: Controlled):
    leader = int(controlled.cluster.leader_of("events", 1))
    assert controlled.says("pause", "--leader-of", "events-1") == f"paused broker {leader}\n"
    controlled.says("resume", str(leader))
    controlled.cluster.wait_in_sync()

    def names_the_controller() -> bool:
        controller = int(controlled.cluster.controller)
        said = controlled.says("pause", "--controller")
        controlled.says("resume", said.split()[-1])
        return said == f"paused broker {controller}\n"

    # On a slow machine the keeper may lose sight of a controller between the question and the command.
    eventually(names_the_controller, "the controller that is paused is the one that leads")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("kill",), "which broker? Give 1, 2, 3 or all"),
        (("kill", "7"), "there is no broker 7: give 1, 2, 3 or all"),
        (("pause", "one"), "there is no broker one: give 1, 2, 3 or all"),
        (("kill", "--leader-of", "evnets"), "--leader-of evnets: there is no topic evnets"),
        (("kill", "--leader-of", "events-9"), "--leader-of events-9: events has partitions 0 to 2"),
    ],
)
def test_a_broker_that_does_not_exist_is_refused(
    controlled: Controlled, words: tuple[str, ...], message: str
):
    assert refused(controlled(*words)).startswith(message)
    assert controlled.done == []


def test_a_request_that_is_not_understood_is_refused(controlled: Controlled):
    """As from a command of another version."""
    folder = os.open(controlled.cluster.data_dir, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(f"/proc/self/fd/{folder}/cluster.sock")
            connection.sendall(b'{"action": "explode", "broker": 1}\n')
            answer = json.loads(connection.makefile("rb").readline())
    finally:
        os.close(folder)
    assert answer == {"refused": "the cluster runs another version of tidelog than this command"}


def test_no_cluster_is_one_line(tmp_path: Path):
    for words in (("status",), ("kill", "1"), ("restart", "all")):
        message = refused(call(*words, XDG_STATE_HOME=str(tmp_path)))
        assert message == "no cluster is running: start one with tidelog up"
    assert refused(call("status", "--data-dir", tmp_path)).startswith(f"no cluster is running in {tmp_path}")


def test_a_broker_that_was_started_by_hand_is_found_by_its_lock(controlled: Controlled):
    """It is no child of the cluster, until it is restarted."""
    properties = controlled.cluster.broker(2).status.properties
    controlled.says("kill", "2")
    by_hand = subprocess.Popen(
        [*COMMAND, "broker", "--properties", properties],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    assert by_hand.stdout is not None
    with by_hand, by_hand.stdout:
        assert any(line.startswith(b"serving id=") for line in by_hand.stdout)
        (row,) = [line for line in controlled("status").out.splitlines() if "started by hand" in line]
        assert "2  running, started by hand" in row
        assert row.endswith("-")  # the port of its metrics is its own choice
        controlled.says("pause", "2")
        assert is_stopped(by_hand.pid)
        controlled.says("resume", "2")
        assert not is_stopped(by_hand.pid)
        assert controlled.says("restart", "2").startswith("broker 2 serves after ")
        assert by_hand.wait(PATIENCE_SECONDS) == 0  # in order, not by a kill
    assert controlled.state_of(2) == "running"
    assert 2 in controlled.cluster.pids


def test_a_cluster_of_up_takes_commands_and_logs_them(tmp_path: Path):
    """The broker that is started again is a child of the cluster: it ends with it."""
    folder = tmp_path / "data"
    with Up(tmp_path, "--brokers", "1", "--data-dir", str(folder)) as up:
        assert READY.fullmatch(up.line().rstrip("\n"))
        perform(folder, Action.KILL, 1)
        logged = "broker 1 was killed by tidelog kill; to restart it: tidelog restart 1\n"
        eventually(lambda: logged in up.errors)
        assert up.run("restart", "1").stdout.startswith("broker 1 serves after ")
        (pid,) = up.pids()
        assert is_alive(pid)
        assert up.end(signal.SIGTERM) == 0
        assert not is_alive(pid)
        assert not (folder / "cluster.sock").exists()
