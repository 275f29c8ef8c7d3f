"""A cluster of real processes: it starts, says where it is, survives losses, leaves nothing behind."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.processes import is_alive
from tests.broker.running import eventually
from tests.zookeeper import ZooKeeper

import tidelog
from tidelog.cluster.aio import Supervisor
from tidelog.cluster.broker_process import exit_summary
from tidelog.cluster.cluster import Cluster
from tidelog.cluster.directory import (
    BrokerStatus,
    ClusterStatus,
    DirectoryLock,
    read_status,
    running,
    running_brokers,
)
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.spec import RELAYS, ClusterSpec, Profile
from tidelog.kafka_client.admin import Admin
from tidelog.kafka_client.blocking import Client, ClientError
from tidelog.settings.table import SettingsError

pytestmark = pytest.mark.slow


def known_brokers(server: BrokerStatus) -> set[int]:
    with Client(server.host, server.port) as client:
        return {each.node_id for each in client.metadata([]).brokers}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(ClusterSpec(brokers=3), tmp_path_factory.mktemp("cluster")) as running_one:
        yield running_one


def test_every_broker_knows_all_when_it_is_ready(cluster: Cluster):
    assert [broker.id for broker in cluster.brokers] == [1, 2, 3]
    for broker in cluster.brokers:
        assert known_brokers(broker) == {1, 2, 3}
    assert cluster.bootstrap_servers == ",".join(f"127.0.0.1:{broker.port}" for broker in cluster.brokers)


def test_the_status_file_says_what_runs(cluster: Cluster):
    """Where each broker is, its process, its files; and that it is true now."""
    status = json.loads((cluster.data_dir / "cluster.json").read_text("utf-8"))
    assert status["pid"] == os.getpid()
    assert status["bootstrap_servers"] == cluster.bootstrap_servers
    assert status["generation"] == "epoch"
    assert re.fullmatch(r"embedded://127\.0\.0\.1:\d+", status["keeper"])
    assert {broker["id"]: broker["pid"] for broker in status["brokers"]} == cluster.pids
    for broker in status["brokers"]:
        assert broker["state"] == "serving"
        assert broker["metrics_port"] > 0
        assert Path(broker["data_dir"]).is_dir()
        assert Path(broker["properties"]).is_file()
    found = running(cluster.data_dir)
    assert found is not None
    assert found.as_json() == status


def test_a_killed_broker_is_missed_and_comes_back_where_it_was(cluster: Cluster):
    before = cluster.brokers[1].port
    pid = cluster.pids[2]
    cluster.kill(2)
    assert not is_alive(pid)
    assert sorted(cluster.pids) == [1, 3]
    assert json.loads((cluster.data_dir / "cluster.json").read_text())["brokers"][1]["state"] == "ended"
    eventually(lambda: known_brokers(cluster.brokers[0]) == {1, 3})
    cluster.start_broker(2)
    cluster.ready()
    assert cluster.brokers[1].port == before
    assert known_brokers(cluster.brokers[1]) == {1, 2, 3}


def test_a_paused_broker_goes_on_when_it_is_resumed(cluster: Cluster):
    cluster.pause(3)
    cluster.resume(3)
    assert 3 in known_brokers(cluster.brokers[2])


def test_a_broker_that_is_stopped_ends_well(cluster: Cluster):
    """A controlled shutdown: what is left behind says that it was clean."""
    cluster.stop_broker(1)
    assert (cluster.data_dir / "broker-1" / ".kafka_cleanshutdown").exists()
    with pytest.raises(ClusterError, match="broker 1 is not running"):
        cluster.kill(1)
    cluster.start_broker(1)
    cluster.ready()


def test_unknown_brokers_are_refused(cluster: Cluster):
    with pytest.raises(ClusterError, match="there is no broker 4"):
        cluster.start_broker(4)
    with pytest.raises(ClusterError, match="broker 2 is running already"):
        cluster.start_broker(2)


def test_two_clusters_cannot_share_a_directory(cluster: Cluster):
    with pytest.raises(ClusterError, match=r"a cluster runs in .* already: stop it with tidelog down"):
        Cluster(ClusterSpec(brokers=1), cluster.data_dir).start()
    assert running(cluster.data_dir) is not None
    assert known_brokers(cluster.brokers[0]) == {1, 2, 3}
    assert {broker.process.pid for broker in running_brokers(cluster.data_dir) if broker.process} == set(
        cluster.pids.values()
    )


def test_nothing_is_left_running_and_data_survives(tmp_path: Path):
    """The second start finds the cluster that the first one made: same id, no port in the way."""
    ids = []
    for _ in range(2):
        with Cluster(ClusterSpec(brokers=1), tmp_path) as cluster:
            pids = list(cluster.pids.values())
            ids.append((tmp_path / "broker-1" / "meta.properties").read_text("utf-8").splitlines()[-1])
        assert not any(map(is_alive, pids))
        assert not (tmp_path / "cluster.json").exists()
    assert ids[0] == ids[1]


# ---------------------------------------------------------------- what cannot be


def test_a_port_that_is_taken_is_named_before_anything_starts(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError) as caught:
            Cluster(ClusterSpec(brokers=1, port=port), tmp_path).start()
    assert str(caught.value).startswith(f"port {port} is in use by ")
    assert f"(pid {os.getpid()})" in str(caught.value)
    assert not list(tmp_path.glob("broker-*"))


def test_a_temporary_directory_goes_with_a_cluster_that_cannot_start():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        cluster = Cluster(ClusterSpec(brokers=1, port=taken.getsockname()[1]))
        with pytest.raises(ClusterError, match="is in use by"):
            cluster.start()
    assert not cluster.data_dir.exists()


def test_a_start_that_is_given_up_leaves_nothing(tmp_path: Path):
    """Although it is stopped by the start itself and by the caller at the same time."""

    async def scenario() -> list[int]:
        cluster = Supervisor(ClusterSpec(brokers=2), tmp_path)
        starting = asyncio.create_task(cluster.start())
        while len(cluster.pids) < 2 and not starting.done():
            await asyncio.sleep(0.001)
        pids = list(cluster.pids.values())
        starting.cancel()
        _, ended = await asyncio.gather(cluster.stop(), starting, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError)
        assert cluster.pids == {}
        return pids

    pids = asyncio.run(scenario())
    assert len(pids) == 2
    assert not any(map(is_alive, pids))
    assert running(tmp_path) is None
    assert not (tmp_path / "cluster.json").exists()


def test_a_broker_that_cannot_start_stops_them_all(tmp_path: Path):
    """The error is the broker's own last line, and no process stays."""
    (tmp_path / "broker-2").mkdir()
    (tmp_path / "broker-2" / "meta.properties").write_text("version=0\nbroker.id=9\ncluster.id=x\n")
    said: list[str] = []
    cluster = Cluster(
        ClusterSpec(brokers=2), tmp_path, on_line=lambda number, line: said.append(f"{number} {line}")
    )
    with pytest.raises(ClusterError) as caught:
        cluster.start()
    assert str(caught.value).startswith(
        f"broker 2 ended with exit code 2: {tmp_path / 'broker-2'} belongs to"
    )
    assert cluster.pids == {}
    assert running(tmp_path) is None
    assert any(line.startswith("2 ") for line in said)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"broker.id": "7"}, "broker.id: each broker of a cluster gets its own, leave it out"),
        ({"num.partitions": "x"}, "num.partitions=x: expected an integer, cluster settings"),
    ],
)
def test_settings_that_no_broker_could_have_are_refused(
    tmp_path: Path, overrides: dict[str, str], message: str
):
    with pytest.raises(SettingsError) as caught:
        Supervisor(ClusterSpec(settings=overrides), tmp_path)
    assert str(caught.value) == message


def test_a_cluster_must_fit_its_ports(tmp_path: Path):
    with pytest.raises(SettingsError, match="port 65535 leaves no room for 2 brokers"):
        Supervisor(ClusterSpec(brokers=2, port=65535), tmp_path)
    with pytest.raises(SettingsError, match="give at least 1"):
        Supervisor(ClusterSpec(brokers=0), tmp_path)


def test_what_a_dead_process_left_behind_is_known_to_be_stale(tmp_path: Path):
    """Even if its process id is alive again, as another user's."""
    ClusterStatus(os.getpid(), "embedded://h:1", "epoch").write(tmp_path)
    assert read_status(tmp_path) is not None
    assert running(tmp_path) is None
    lock = DirectoryLock(tmp_path)
    lock.acquire()
    assert running(tmp_path) is not None
    lock.release()
    assert running(tmp_path) is None
    (tmp_path / "cluster.json").write_text("{")
    assert read_status(tmp_path) is None


# ---------------------------------------------------------------- who outlives whom

SUPERVISOR = """
import asyncio, sys
from pathlib import Path
from tidelog import ClusterSpec
from tidelog.cluster.aio import Supervisor

async def main():
    cluster = Supervisor(ClusterSpec(brokers=2), Path(sys.argv[1]))
    await cluster.start()
    print("ready", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


def test_no_broker_outlives_a_killed_supervisor(tmp_path: Path):
    process = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        status = read_status(tmp_path)
        assert status is not None
        pids = [broker.pid for broker in status.brokers]
        assert all(map(is_alive, pids))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert running(tmp_path) is None
    eventually(lambda: not any(map(is_alive, pids)))


def test_deaths_are_reported_with_their_last_words(tmp_path: Path):
    """And only those that were not asked for."""

    async def scenario() -> list[int]:
        died: list[int] = []
        cluster = Supervisor(
            ClusterSpec(brokers=2), tmp_path, on_death=lambda process: died.append(process.id)
        )
        await cluster.start()
        try:
            await cluster.kill(1)
            os.kill(cluster.pids[2], signal.SIGKILL)
            await cluster.ended(2)
        finally:
            await cluster.stop()
        return died

    assert asyncio.run(scenario()) == [2]


def test_zookeeper_can_be_the_keeper(tmp_path: Path, zookeeper: ZooKeeper):
    """Then nothing but brokers runs, and what they agree on is in ZooKeeper, below the given path."""
    url = zookeeper.url()
    with Cluster(ClusterSpec(brokers=2, keeper=url), tmp_path) as cluster:
        assert known_brokers(cluster.brokers[1]) == {1, 2}
        status = read_status(tmp_path)
        assert status is not None
        assert status.keeper == url
        assert not (tmp_path / "keeper").exists()


def test_brokers_outlive_the_process_they_were_forked_from(tmp_path: Path):
    """They go on; the next one comes from a new fork server, and how an orphan ended is not known."""

    async def scenario() -> list[str]:
        died: list[str] = []
        cluster = Supervisor(
            ClusterSpec(brokers=2), tmp_path, on_death=lambda process: died.append(exit_summary(process))
        )
        await cluster.start()
        try:
            os.kill(cluster._servers.open().pid, signal.SIGKILL)
            os.kill(cluster.pids[1], signal.SIGKILL)
            await cluster.ended(1)
            assert list(cluster.pids) == [2]
            await cluster.start_broker(1)
            await cluster.ready()
        finally:
            await cluster.stop()
        return died

    assert asyncio.run(scenario()) == ["broker 1 ended"]


def test_code_that_cannot_be_loaded_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The last line of what Python says about it."""
    (tmp_path / "uvloop.py").write_text("raise ImportError('no such loop')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ClusterError) as caught:
        Cluster(ClusterSpec(brokers=1), tmp_path / "data").start()
    assert str(caught.value) == "broker 1 cannot be started: ImportError: no such loop"


# ---------------------------------------------------------------- questions and faults


def test_it_can_be_asked_and_healed():
    """As the guide has it: who leads, who is in sync; and what was done to brokers is undone."""
    with tidelog.Cluster(tidelog.ClusterSpec(brokers=2, settings={"min.insync.replicas": "1"})) as cluster:
        folder = cluster.data_dir
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create("orders", partitions=1, replicas=2, settings={})
        cluster.wait_isr("orders", 2)
        assert cluster.controller in (1, 2)
        first = cluster.leader_of("orders")
        cluster.kill(first)
        other = cluster.leader_of("orders")
        assert other != first
        with pytest.raises(
            ClusterError, match=rf"2 replicas in sync .* of orders: broker {other} says \[{other}\]"
        ):
            cluster.wait_isr("orders", 2, timeout_s=0.3)
        cluster.pause(other)
        with pytest.raises(ClusterError, match=r"agree on the controller: no broker can be asked"):
            cluster.wait_controller(timeout_s=0.3)
        assert cluster.heal() == []
        cluster.wait_isr("orders", 2)
        assert sorted(cluster.pids) == [1, 2]
        assert cluster.heal() == []
    assert not folder.exists()


def test_links_can_be_cut_and_are_mended_with_the_rest(tmp_path: Path):
    """A client finds its way to the brokers through relays of its own."""
    spec = ClusterSpec(brokers=2, zones=("az1", "az2"), network=RELAYS, profile=Profile.TRIAL)
    with Cluster(spec, tmp_path) as cluster:
        servers = cluster.bootstrap_for("p", "az1")
        assert not set(servers.split(",")) & set(cluster.bootstrap_servers.split(","))
        with Client.to(servers) as client:
            assert {each.node_id for each in client.metadata([]).brokers} == {1, 2}
        cluster.network.cut([("p", 1), (1, "p"), ("p", 2), (2, "p")])
        with pytest.raises(ClientError):
            Client.to(servers, 0.5)
        assert cluster.heal() == []
        with Client.to(servers) as client:
            assert {each.node_id for each in client.metadata([]).brokers} == {1, 2}
        status = read_status(tmp_path)
        assert status is not None
        assert [broker.state for broker in status.brokers] == ["registered", "registered"]


def test_a_broker_keeps_its_port_while_it_is_away(tmp_path: Path):
    """Any free port is not any more, once a broker of the cluster has it."""
    with Cluster(ClusterSpec(brokers=1), tmp_path) as cluster:
        port = cluster.brokers[0].port
        cluster.stop_broker(1)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        cluster.start_broker(1)
        assert cluster.brokers[0].port == port
