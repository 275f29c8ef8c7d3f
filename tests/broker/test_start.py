"""What keeps a broker from starting: one line that says what to do, exit code 2, nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.broker.running import Starter, command, eventually, properties, serving_port, started

from tidelog.cluster.cluster import Cluster
from tidelog.cluster.directory import read_status
from tidelog.cluster.spec import ClusterSpec
from tidelog.kafka_client.blocking import Client

pytestmark = pytest.mark.slow


class Place:
    """A running cluster of one broker, and settings for another that could join it."""

    def __init__(self, cluster: Cluster, starter: Starter) -> None:
        self.cluster = cluster
        self.refusal = starter.refusal
        status = read_status(cluster.data_dir)
        assert status is not None
        self.keeper = status.keeper

    def settings(self, tmp_path: Path, **changed: str | int | Path) -> Path:
        values: dict[str, str | int | Path] = {
            "broker.id": 7,
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": tmp_path / "logs",
            "tidelog.keeper": self.keeper,
            "zookeeper.session.timeout.ms": 4000,
        }
        values |= {name.replace("_", "."): value for name, value in changed.items()}
        return properties(tmp_path / "broker.properties", values)

    def known(self) -> set[int]:
        broker = self.cluster.brokers[0]
        with Client(broker.host, broker.port) as client:
            return {each.node_id for each in client.metadata([]).brokers}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with (
        closing(Starter()) as starter,
        Cluster(ClusterSpec(brokers=1), tmp_path_factory.mktemp("place")) as cluster,
    ):
        yield Place(cluster, starter)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        yield taken.getsockname()[1]


def test_a_port_in_use(place: Place, tmp_path: Path, taken_port: int):
    said = place.refusal(place.settings(tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{taken_port}"))
    assert said == (
        f"tidelog broker 7: cannot listen on 127.0.0.1:{taken_port}: address already in use; "
        "free the port or set listeners=PLAINTEXT://HOST:PORT"
    )


def test_a_host_that_is_not_ours(place: Place, tmp_path: Path):
    said = place.refusal(place.settings(tmp_path, listeners="PLAINTEXT://192.0.2.1:0"))
    assert said.startswith("tidelog broker 7: cannot listen on 192.0.2.1:0: cannot assign requested address;")


def test_a_host_that_nobody_knows(place: Place, tmp_path: Path):
    said = place.refusal(place.settings(tmp_path, listeners="PLAINTEXT://no-such-host.invalid:0"))
    assert said.startswith("tidelog broker 7: cannot listen on no-such-host.invalid:0: ")
    assert "unknown error" not in said.lower()


def test_a_metrics_port_in_use(place: Place, tmp_path: Path, taken_port: int):
    """It is detected before the broker registers: no client was sent to it."""
    said = place.refusal(
        place.settings(tmp_path, tidelog_metrics_port=taken_port, tidelog_evidence_dir=tmp_path / "events")
    )
    assert said == (
        f"tidelog broker 7: cannot serve metrics on port {taken_port}: address already in use; "
        "set tidelog.metrics.port"
    )
    assert "broker_registered" not in "".join(
        path.read_text() for path in tmp_path.glob("events/**/*") if path.is_file()
    )


def test_a_folder_that_cannot_be_made(place: Place, tmp_path: Path):
    (tmp_path / "file").write_text("")
    said = place.refusal(place.settings(tmp_path, log_dirs=tmp_path / "file" / "logs"))
    assert said == (
        f"tidelog broker 7: cannot use {tmp_path}/file/logs for logs: Not a directory; "
        "choose another folder or repair it"
    )


def test_a_folder_that_cannot_be_written(place: Place, tmp_path: Path):
    """Not even by root, who may write where permissions forbid it: one among the kernel's."""
    said = place.refusal(place.settings(tmp_path, log_dirs="/proc/logs"))
    assert said.startswith("tidelog broker 7: cannot use /proc/logs for logs: ")


def test_a_folder_with_something_else_in_it(place: Place, tmp_path: Path):
    """A mistyped path destroys no files."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("meow")
    said = place.refusal(place.settings(tmp_path, log_dirs=tmp_path / "photos"))
    assert said == (
        f"tidelog broker 7: {tmp_path}/photos holds cat.jpg but no meta.properties: "
        "not a folder of logs; choose an empty one"
    )
    assert (tmp_path / "photos" / "cat.jpg").read_text() == "meow"
    assert os.listdir(tmp_path / "photos") == ["cat.jpg"]


def meta(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "meta.properties").write_text(text)
    return folder


def test_the_folder_of_another_broker(place: Place, tmp_path: Path):
    folder = meta(tmp_path / "logs", "version=0\nbroker.id=9\n")
    said = place.refusal(place.settings(tmp_path))
    assert said == (f"tidelog broker 7: {folder} belongs to broker 9, not 7; choose another folder or id")


def test_the_folder_of_another_cluster(place: Place, tmp_path: Path):
    folder = meta(tmp_path / "logs", "version=0\nbroker.id=7\ncluster.id=elsewhere\n")
    said = place.refusal(place.settings(tmp_path))
    assert said.startswith(f"tidelog broker 7: {folder} belongs to cluster elsewhere, not ")
    assert said.endswith("; choose another folder or keeper")
    assert place.known() == {1}


def test_a_folder_that_a_running_broker_uses(place: Place, tmp_path: Path):
    folder = place.cluster.data_dir / "broker-1"
    said = place.refusal(place.settings(tmp_path, broker_id=1, log_dirs=folder))
    assert said == (
        f"tidelog broker 1: {folder} is used by another broker; stop that one or choose another folder"
    )


def test_a_checkpoint_that_somebody_edited(place: Place, tmp_path: Path):
    folder = meta(tmp_path / "logs", "version=0\nbroker.id=7\n")
    (folder / "recovery-point-offset-checkpoint").write_text("what?\n")
    said = place.refusal(place.settings(tmp_path))
    assert said.startswith(
        f"tidelog broker 7: {folder}/recovery-point-offset-checkpoint is not a checkpoint: "
    )


def test_no_keeper(place: Place, tmp_path: Path, taken_port: int):
    """Neither if the port is closed, nor if a process listens and does not answer."""
    for port in (1, taken_port):
        url = f"embedded://127.0.0.1:{port}"
        said = place.refusal(
            place.settings(tmp_path, tidelog_keeper=url, zookeeper_connection_timeout_ms=300)
        )
        assert said == (f"tidelog broker 7: no keeper at {url} within 300 ms; start it or set tidelog.keeper")


def test_no_zookeeper(place: Place, tmp_path: Path):
    url = "zookeeper://127.0.0.1:1/chroot"
    said = place.refusal(place.settings(tmp_path, tidelog_keeper=url, zookeeper_connection_timeout_ms=300))
    assert said == f"tidelog broker 7: no keeper at {url} within 300 ms; start it or set tidelog.keeper"


def test_an_id_that_is_taken(place: Place, tmp_path: Path):
    """The one that was there stays, and is named."""
    said = place.refusal(place.settings(tmp_path, broker_id=1, zookeeper_session_timeout_ms=500))
    broker = place.cluster.brokers[0]
    assert said == (
        f"tidelog broker 1: broker.id=1 is taken by 127.0.0.1:{broker.port}; "
        "stop that broker or choose another id"
    )
    assert place.known() == {1}


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("num_partitions", "many", "num.partitions=many: expected an integer"),
        (
            "tidelog_generation",
            "raft",
            "tidelog.generation=raft: expected one of hw, kip101, epoch, elr, majority",
        ),
        ("broker_id", "-1", "broker.id=-1: expected an integer of at least 0"),
        ("listeners", "SSL://h:1", "listeners=SSL://h:1: "),
        ("tidelog_keeper", "etcd://h:1", "tidelog.keeper=etcd://h:1: expected embedded://host:port or "),
    ],
)
def test_values_that_cannot_be(place: Place, tmp_path: Path, name: str, value: str, complaint: str):
    said = place.refusal(place.settings(tmp_path, **{name: value}))
    assert said.startswith(f"tidelog broker: {complaint}")
    assert said.endswith(" of broker.properties")


def test_no_file(place: Place, tmp_path: Path):
    assert place.refusal(tmp_path / "none") == f"tidelog broker: {tmp_path}/none: no such file or directory"


def test_a_signal_ends_a_start_that_waits(place: Place, tmp_path: Path, taken_port: int):
    """The broker does not wait for a missing keeper."""
    file = place.settings(
        tmp_path,
        tidelog_keeper=f"embedded://127.0.0.1:{taken_port}",
        zookeeper_connection_timeout_ms=120_000,
    )
    with started(file) as process:
        eventually(lambda: _handles(process.pid, signal.SIGTERM))
        process.send_signal(signal.SIGTERM)
        asked = time.monotonic()
        assert process.wait(PATIENCE_SECONDS) == 0
        assert time.monotonic() - asked < 30


def _handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has its own idea of what a signal means."""
    text = Path(f"/proc/{pid}/status").read_text()
    caught = next(line.split()[1] for line in text.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


def test_what_was_refused_may_start_later(place: Place, tmp_path: Path, taken_port: int):
    """A refused start leaves the folder as good as new: no lock, no mark, no registration."""
    place.refusal(place.settings(tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{taken_port}"))
    with started(place.settings(tmp_path)) as process:
        serving_port(process)
        eventually(lambda: place.known() == {1, 7})
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    eventually(lambda: place.known() == {1})
    assert os.path.exists(tmp_path / "logs" / ".kafka_cleanshutdown")


def test_unknown_words_on_the_command_line(tmp_path: Path):
    done = subprocess.run(
        [*command(tmp_path / "x"), "--port"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
    assert done.stderr.count("\n") == 1
