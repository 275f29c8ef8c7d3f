"""`tidelog up` and `down`: the ready line, the log, the deaths, the end; in front and in the background."""

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS, is_alive
from tests.cli.calling import COMMAND, call, refused
from tests.cli.clusters import READY, Up, eventually, kill

from tidelog.cluster.directory import LOCK_FILE, running_brokers
from tidelog.kafka_client.blocking import Client
from tidelog.storage.lock_file import acquire, is_held

pytestmark = pytest.mark.slow


def test_one_line_says_where_it_is_and_ctrl_c_ends_it(tmp_path: Path):
    """On stdout that line and nothing else; afterwards no process, no temporary directory."""
    with Up(tmp_path) as up:
        ready = READY.fullmatch(up.line().rstrip("\n"))
        assert ready is not None
        assert (ready["count"], ready["generation"]) == ("3", "epoch")
        with Client.to(ready["servers"]) as client:
            assert {broker.node_id for broker in client.metadata([]).brokers} == {1, 2, 3}
        pids = up.pids()
        (folder,) = tmp_path.glob("tidelog-*")
        assert up.end(signal.SIGINT) == 0, up.errors
        assert up.line() == ""
    assert not any(map(is_alive, pids))
    assert not folder.exists()
    assert re.search(r"^broker [123] │ \d\d:\d\d:\d\d\.\d{3} INFO    serving", up.errors, re.MULTILINE)
    assert re.fullmatch(r"stopped 3 brokers in \d+\.\d s", up.errors.splitlines()[-1])


def test_named_data_survives_and_settings_reach_the_brokers(tmp_path: Path):
    data = tmp_path / "data"
    arguments = ("--brokers", "1", "--data-dir", str(data), "--generation", "hw", "--set", "num.partitions=7")
    with Up(tmp_path, *arguments, "--quiet") as up:
        ready = READY.fullmatch(up.line().rstrip("\n"))
        assert ready is not None
        assert (ready["count"], ready["generation"]) == ("1", "hw")
        assert up.end(signal.SIGTERM) == 0
    properties = (data / "broker-1.properties").read_text("utf-8").splitlines()
    assert "num.partitions=7" in properties
    assert "tidelog.generation=hw" in properties
    assert (data / "broker-1" / "meta.properties").exists()
    assert up.errors == ""


def test_a_script_gets_one_line_of_json(tmp_path: Path):
    with Up(tmp_path, "--brokers", "1", "--json") as up:
        said = json.loads(up.line())
        assert said["bootstrap_servers"] == f"127.0.0.1:{said['brokers'][0]['port']}"
        assert said["pid"] == up.process.pid
        assert said["ready_seconds"] > 0


WAITING = ("--keeper", "zookeeper://127.0.0.1:1", "--set", "zookeeper.connection.timeout.ms=600000")
"""A start that takes for ever: the brokers wait for a keeper that never comes."""


@contextmanager
def broker_by_hand(up: Up, properties: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A broker started as the terminal says how to; it serves."""
    broker = subprocess.Popen(
        [*COMMAND, "broker", "--properties", str(properties)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=up.environment,
    )
    assert broker.stdout is not None
    try:
        assert any(line.startswith(b"serving id=") for line in broker.stdout)
        yield broker
    finally:
        broker.kill()
        broker.wait(PATIENCE_SECONDS)
        broker.stdout.close()


def test_a_broker_that_dies_is_told_about_and_can_be_started_again(tmp_path: Path):
    """With the command that does it; the others go on, and so does the cluster when it is back. `down` stops
    that broker with the rest, and counts it."""
    folder = tmp_path / "data"
    with Up(tmp_path, "--brokers", "2", "--data-dir", str(folder)) as up:
        ready = READY.fullmatch(up.line().rstrip("\n"))
        assert ready is not None
        kill(up.pids()[1])
        eventually(lambda: "to restart it" in up.errors)
        assert "broker 2 was ended by SIGKILL" in up.errors
        assert "  the other brokers keep running; to restart it: tidelog restart 2\n" in up.errors
        assert up.process.poll() is None
        with Client.to(ready["servers"]) as client:
            assert client.metadata([]).brokers
        with broker_by_hand(up, folder / "broker-2.properties") as again:
            with Client.to(ready["servers"]) as client:
                eventually(lambda: len(client.metadata([]).brokers) == 2)
            down = up.run("down")
            assert (down.returncode, down.stderr) == (0, "")
            assert re.fullmatch(r"stopped 2 brokers in \d+\.\d s\n", down.stdout)
            assert again.wait(PATIENCE_SECONDS) == 0  # in order, not by a kill
        assert up.process.wait(PATIENCE_SECONDS) == 0
    assert re.search(r"^stopped 2 brokers in ", up.errors.splitlines()[-1])
    assert running_brokers(folder) == []


def test_a_killed_supervisor_leaves_nothing_that_down_would_not_find(tmp_path: Path):
    """Its brokers end by themselves; one that was started by hand, or is paused, does not. Until they are
    gone no other cluster starts among them."""
    folder = tmp_path / "data"
    with Up(tmp_path, "--brokers", "2", "--data-dir", str(folder)) as up:
        assert READY.fullmatch(up.line().rstrip("\n"))
        port = str(up.status()["brokers"][0]["port"])
        kill(up.pids()[0])
        with broker_by_hand(up, folder / "broker-1.properties") as again:
            os.kill(again.pid, signal.SIGSTOP)
            kill(up.process.pid)
            refusal = up.run("up", "--data-dir", folder)
            assert refusal.returncode == 2
            assert f"broker 1 (pid {again.pid}) runs in {folder} already" in refusal.stderr
            assert refusal.stderr.endswith(f"stop it with tidelog down --data-dir {folder}\n")
            elsewhere = up.run("up", "--brokers", "1", "--port", port)
            assert f"port {port} is in use by another tidelog broker (pid {again.pid})" in elsewhere.stderr
            down = up.run("down")
            assert (down.returncode, down.stderr) == (0, "")
            assert re.fullmatch(r"stopped [12] brokers? in \d+\.\d s\n", down.stdout)
            assert again.wait(PATIENCE_SECONDS) == 0
        assert running_brokers(folder) == []
        assert up.run("down").stdout == "no cluster is running\n"


def test_down_stops_a_cluster_that_is_still_starting(tmp_path: Path):
    folder = tmp_path / "data"
    with Up(tmp_path, "--detach", *WAITING, "--data-dir", str(folder)) as up:
        eventually(lambda: len(running_brokers(folder)) == 3)
        down = up.run("down")
        assert (down.returncode, down.stderr) == (0, "")
        assert down.stdout.startswith("stopped 3 brokers in ")
        assert up.process.wait(PATIENCE_SECONDS) == 2
        assert up.line() == ""
        eventually(lambda: up.errors == "tidelog: the cluster was stopped before it was ready\n")
        assert running_brokers(folder) == []


def test_ctrl_c_while_it_goes_into_the_background(tmp_path: Path):
    """Nothing comes up behind the back of a person who gave up waiting."""
    folder = tmp_path / "data"
    with Up(tmp_path, "--detach", *WAITING, "--data-dir", str(folder)) as up:
        eventually(lambda: len(running_brokers(folder)) == 3)
        assert up.end(signal.SIGINT) == 130
        assert running_brokers(folder) == []
        assert not is_held(folder / LOCK_FILE)


def is_pending(pid: int, sent: signal.Signals) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    except OSError:
        return False
    found = re.search(r"^ShdPnd:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> (sent - 1) & 1)


def test_several_downs_at_a_time_stop_it_in_order(tmp_path: Path):
    """SIGTERM, however often, is no reason to kill brokers: they leave their data as a clean stop does."""
    folder = tmp_path / "data"
    with Up(tmp_path, "--brokers", "2", "--data-dir", str(folder)) as up:
        assert READY.fullmatch(up.line().rstrip("\n"))
        for _ in range(3):
            up.process.send_signal(signal.SIGTERM)
            eventually(lambda: not is_pending(up.process.pid, signal.SIGTERM), "it has arrived")
        assert up.process.wait(PATIENCE_SECONDS) == 0
    assert len(list(folder.glob("broker-*/.kafka_cleanshutdown"))) == 2


def test_what_does_not_end_is_said_and_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A lock that names another process than its holder: that process is left alone."""
    for name in ("_NAMED_SECONDS", "_BROKERS_SECONDS", "_KILLED_SECONDS"):
        monkeypatch.setattr(f"tidelog.cli.commands.down.{name}", 0.0)
    lock = tmp_path / "broker-1" / ".lock"
    lock.parent.mkdir()
    held = acquire(lock)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as bystander:
        lock.write_text(f"{bystander.pid} 1\n")
        answer = call("down", "--data-dir", tmp_path)
        os.close(held)
        assert (answer.code, answer.err) == (1, f"tidelog: broker 1 in {tmp_path} does not stop\n")
        assert answer.out.startswith("stopped 0 brokers in ")
        assert bystander.poll() is None


def test_the_first_signal_during_the_start_ends_it(tmp_path: Path):
    """No user has to wait for a cluster that was cancelled."""
    with Up(tmp_path) as up:
        eventually(lambda: any(tmp_path.glob("tidelog-*/cluster.lock")))
        assert up.end(signal.SIGINT) == 0, up.errors
    assert not list(tmp_path.glob("tidelog-*"))


def test_a_second_signal_does_not_wait(tmp_path: Path):
    """After a second Ctrl-C what still runs is killed, and nothing is left behind."""
    with Up(tmp_path, "--brokers", "2") as up:
        assert READY.fullmatch(up.line().rstrip("\n"))
        pids = up.pids()
        up.process.send_signal(signal.SIGINT)
        assert up.end(signal.SIGINT) == 0, up.errors
    assert not any(map(is_alive, pids))
    assert not list(tmp_path.glob("tidelog-*"))


def test_in_the_background_until_down(tmp_path: Path):
    """`--detach` returns when it is ready; other commands find it; `down` ends it and its data. What is odd
    about the settings is said in front, not only in the log."""
    with Up(tmp_path, "--brokers", "2", "--detach", "--set", "ssl.protocol=x") as up:
        ready = READY.fullmatch(up.line().rstrip("\n"))
        assert ready is not None
        assert up.process.wait(PATIENCE_SECONDS) == 0
        odd = "ssl.protocol has no effect: connections are neither encrypted nor authenticated, --set\n"
        eventually(lambda: up.errors == odd)
        supervisor, pids = up.status()["pid"], up.pids()
        assert is_alive(supervisor)
        listed = up.run("topics", "list")
        assert listed.returncode == 0
        assert listed.stdout.split()[4:] == ["__consumer_offsets", "10", "2", "ok"]
        again = up.run("up", "--detach")
        assert again.returncode == 2
        assert "a cluster runs in" in again.stderr
        down = up.run("down")
        assert down.returncode == 0
        assert re.fullmatch(r"stopped 2 brokers in \d+\.\d s\n", down.stdout)
        eventually(lambda: not any(map(is_alive, [supervisor, *pids])), "they are gone")
        assert not (tmp_path / "state" / "tidelog" / "cluster").exists()
        assert up.run("down").stdout == "no cluster is running\n"


def test_what_fails_in_the_background_is_said_in_front(tmp_path: Path):
    (tmp_path / "data" / "broker-1").mkdir(parents=True)
    (tmp_path / "data" / "broker-1" / "meta.properties").write_text("version=0\nbroker.id=9\n")
    with Up(tmp_path, "--detach", "--data-dir", str(tmp_path / "data")) as up:
        assert up.process.wait(PATIENCE_SECONDS) == 2
        assert up.line() == ""
    (line,) = up.errors.splitlines()
    assert line.startswith("tidelog: broker 1 ended with exit code 2: ")


def test_a_cluster_in_front_can_be_stopped_from_elsewhere(tmp_path: Path):
    with Up(tmp_path, "--brokers", "1", "--data-dir", str(tmp_path / "data")) as up:
        assert READY.fullmatch(up.line().rstrip("\n"))
        assert up.run("down", "--data-dir", tmp_path / "data").stdout.startswith("stopped 1 broker in")
        assert up.process.wait(PATIENCE_SECONDS) == 0


# ---------------------------------------------------------------- refusals, before anything starts


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--generation raft", "unknown generation 'raft': choose one of hw, kip101, epoch, elr, majority"),
        ("--set num.partitions=x", "num.partitions=x: expected an integer, --set"),
        ("--set num.partitions", "'num.partitions': expected name=value, --set"),
        ("--set broker.id=1", "--set broker.id: tidelog up sets it for each broker; see tidelog broker"),
        ("--set zookeeper.connect=h", "--set zookeeper.connect: name the keeper with --keeper"),
        (
            "--keeper redis://h",
            "--keeper redis://h: expected embedded or zookeeper://host:port,host:port/path",
        ),
        ("--quiet --verbose", "choose one of --quiet and --verbose"),
        ("--properties /none", "/none: no such file or directory"),
        ("--brokers 2 --port 65535", "port 65535 leaves no room for 2 brokers: choose a smaller one"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words: str, message: str, tmp_path: Path):
    answer = call("up", *words.split(), TMPDIR=str(tmp_path), XDG_STATE_HOME=str(tmp_path))
    assert refused(answer) == message


def test_a_taken_port_is_named_with_who_has_it(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refused(call("up", "--port", str(port), "--brokers", "1", XDG_STATE_HOME=str(tmp_path)))
    assert message.startswith(f"port {port} is in use by python")
    assert message.endswith(f"(pid {os.getpid()}): stop that, or choose another port")


def test_remarks_about_a_file_come_before_the_log(tmp_path: Path):
    """What is unknown is warned about once, not by each broker."""
    (tmp_path / "kafka.properties").write_text("broker.id=5\nnum.io.threads=8\nnum.partitons=3\n")
    with Up(tmp_path, "--properties", str(tmp_path / "kafka.properties"), "--brokers", "2") as up:
        assert READY.fullmatch(up.line().rstrip("\n"))
        up.end()
    lines = up.errors.splitlines()
    assert lines[:3] == [
        "unknown setting num.partitons, line 3 of kafka.properties: did you mean num.partitions?",
        "settings of Kafka without effect here: num.io.threads",
        f"{tmp_path / 'kafka.properties'}: tidelog up ignores broker.id and sets its own",
    ]
    assert up.errors.count("num.partitons") == 1


def test_a_mistyped_setting_is_refused_before_anything_starts(tmp_path: Path):
    """In a file, which may be one of Kafka's, it is a warning."""
    message = "unknown setting 'num.partitons': did you mean num.partitions"
    for command in (("up",), ("broker", "--id", "1", "--keeper", "embedded://h:1"), ("trial",)):
        assert refused(call(*command, "--set", "num.partitons=3", XDG_STATE_HOME=str(tmp_path))).startswith(
            message
        )
    assert not list(tmp_path.iterdir())
