"""`tidelog broker` and `tidelog keeper`: the parts of a cluster one by one, as on several machines."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.cli.calling import COMMAND, call, environment, refused
from tests.cli.clusters import eventually

from tidelog.kafka_client.blocking import Client
from tidelog.settings.broker import BROKER


def test_the_settings_are_printed():
    """Every one with its default and what it does; as a page and for scripts."""
    answer = call("broker", "--settings")
    assert answer.code == 0
    assert max(map(len, answer.lines)) <= 80
    assert "log.segment.bytes = 1073741824  integer" in answer.lines
    assert "broker.id  (required)  integer" in answer.lines
    listed = {entry["name"]: entry for entry in call("broker", "--settings", "--json").json}
    assert list(listed) == list(BROKER)
    assert listed["log.segment.bytes"]["default"] == "1073741824"
    assert listed["broker.id"]["required"]
    assert listed["broker.rack"]["default"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "no broker id: give --id N, or --properties FILE with broker.id"),
        (
            "--id 1",
            "no keeper: give --keeper zookeeper://host:port, or embedded://host:port of a tidelog keeper",
        ),
        (
            "--id 1 --keeper h:1",
            "tidelog.keeper=h:1: expected embedded://host:port or zookeeper://host:port,…/chroot, --keeper",
        ),
        (
            "--id 1 --keeper embedded://h:1 --listen 9092",
            "listeners=PLAINTEXT://9092: expected host:port, not '9092', --listen",
        ),
        ("--properties /none", "/none: no such file or directory"),
        ("--json", "--json needs --settings"),
    ],
)
def test_what_is_missing_or_wrong_is_said_with_its_option(words: str, message: str):
    assert refused(call("broker", *words.split())) == message


def test_a_keeper_that_is_not_there_is_one_line(tmp_path: Path):
    done = subprocess.run(
        [
            *(*COMMAND, "broker", "--id", "1", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)),
            *("--keeper", "embedded://127.0.0.1:1", "--set", "zookeeper.connection.timeout.ms=300"),
        ],
        capture_output=True,
        env=environment(),
        check=False,
        timeout=PATIENCE_SECONDS,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        "tidelog broker 1: no keeper at embedded://127.0.0.1:1 within"
    )


def test_a_keeper_cannot_listen_everywhere():
    assert refused(call("keeper", "--listen", "x")) == "--listen x: expected host:port, not 'x'"
    message = refused(call("keeper", "--listen", "192.0.2.1:0"))
    assert message == "the keeper cannot start on 192.0.2.1:0: cannot assign requested address"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refused(call("keeper", "--listen", f"127.0.0.1:{port}"))
    assert message.startswith(f"port {port} is in use by ")
    assert message.endswith(f"(pid {os.getpid()}): stop that process, or choose another port with --listen")


def start(*arguments: str) -> tuple["subprocess.Popen[str]", str]:
    """A process, and what it says when it serves."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        text=True,
    )
    assert process.stdout is not None
    said = (line.strip() for line in process.stdout)
    return process, next(line for line in said if line.startswith("serving "))


@pytest.mark.slow
def test_a_cluster_put_together_by_hand(tmp_path: Path):
    """A keeper and two brokers, each started alone; the file's settings lose against the options."""
    properties = tmp_path / "server.properties"
    properties.write_text("broker.id=9\nzookeeper.connect=nowhere:1\nbroker.rack=az1\nnum.partitions=4\n")
    processes = []
    try:
        keeper, said = start("keeper", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "keeper"))
        processes.append(keeper)
        url = said.removeprefix("serving ")
        assert url.startswith("embedded://127.0.0.1:")
        ports = []
        for number in (1, 2):
            broker, said = start(
                *("broker", "--id", str(number), "--listen", "127.0.0.1:0", "--keeper", url),
                *("--data-dir", str(tmp_path / f"b{number}"), "--properties", str(properties)),
                *("--set", f"broker.rack=az{number}"),
            )
            processes.append(broker)
            words = dict(word.split("=") for word in said.split()[1:])
            assert words["id"] == str(number)
            ports.append(int(words["port"]))
        with Client("127.0.0.1", ports[0]) as client:
            eventually(lambda: len(client.metadata([]).brokers) == 2)
            racks = {broker.node_id: broker.rack for broker in client.metadata([]).brokers}
        assert racks == {1: "az1", 2: "az2"}
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0
            assert process.stdout is not None
            process.stdout.close()
