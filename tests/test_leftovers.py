"""A run of tests that is killed leaves nothing running: neither Java nor brokers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.processes import eventually, is_alive
from tests.leftovers import NAME, carriers

ROOT = Path(__file__).resolve().parent.parent
CONFTEST = """
from tests.leftovers import Leftovers

def pytest_configure(config):
    config.pluginmanager.register(Leftovers(), "leftovers")
"""
TEST = """
import json, os, signal, subprocess, sys
from pathlib import Path
from bench.jars import java
from tests.cli.calling import COMMAND
from tests.zookeeper import ZooKeeper

def test_that_never_ends(tmp_path):
    zookeeper = ZooKeeper(java(), tmp_path)
    zookeeper.start()
    up = [*COMMAND, "up", "--detach", "--brokers", "1", "--port", "0", "--data-dir", tmp_path / "data"]
    subprocess.run(up, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "HOME": str(tmp_path)})
    cluster = json.loads((tmp_path / "data" / "cluster.json").read_text())
    pids = [zookeeper._process.pid, cluster["pid"], cluster["brokers"][0]["pid"]]
    said = Path(__file__).with_name("said")
    said.with_suffix(".part").write_text(json.dumps([os.getpid(), *pids]))
    said.with_suffix(".part").rename(said)
    signal.pause()
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A run with one worker, in the middle of a test: its process; the ids of the worker, a Java, a cluster,
    a broker."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_endless.py").write_text(TEST)
    options = ["-n", "1", "--max-worker-restart", "0", "-p", "no:cacheprovider"]
    with (tmp_path / "output").open("wb") as output:
        running = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, tmp_path],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=output,
        )
    said, pids = tmp_path / "said", []
    try:
        eventually(lambda: said.exists() or running.poll() is not None, "a test that runs", 120)
        assert said.exists(), (tmp_path / "output").read_text()
        pids = json.loads(said.read_text())
        yield running, pids
    finally:
        running.kill()
        running.wait()
        for pid in filter(is_alive, pids):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["the run", "its worker"])
def test_nothing_outlives_a_run_that_is_killed(
    run: tuple[subprocess.Popen[bytes], list[int]], whom: str
) -> None:
    """Killed, not asked to end. Where a worker is killed, what it started goes while the run goes on."""
    running, pids = run
    worker, *started = pids
    assert all(map(is_alive, started))
    os.kill(running.pid if whom == "the run" else worker, signal.SIGKILL)
    eventually(lambda: not any(map(is_alive, pids)), "the end of everything", 60)


def test_whoever_is_started_carries_the_mark() -> None:
    """So will be found, whichever process started it, and in whichever session."""
    with subprocess.Popen(["sh", "-c", "cat; true"], stdin=subprocess.PIPE, start_new_session=True) as shell:
        children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children")
        child = int(eventually(children.read_text, "the shell's own child"))
        assert {shell.pid, child} <= set(carriers(os.environ[NAME]))
        assert os.getpid() not in carriers(os.environ[NAME])
        shell.communicate()
