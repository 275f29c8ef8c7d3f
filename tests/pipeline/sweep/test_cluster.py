"""The same sweep on a standalone Spark cluster: a master and two workers, out of PySpark's own jars."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pyspark
import pytest

from tidelog.pipeline.spark.java import find_java, launcher_home

STARTS_WITHIN_S = 400.0
_HOME = Path(pyspark.__file__).parent


class Cluster:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.environment = {
            **os.environ,
            "SPARK_HOME": str(_HOME),
            "JAVA_HOME": str(launcher_home(find_java())),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
        }

    def start(self, name: str, role: str, *words: str) -> Path:
        """One daemon. Its port is any that is free; what it says goes into a file."""
        said = self._folder / f"{name}.log"
        command = [str(_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *words]
        with said.open("wb") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self.environment, start_new_session=True
            )
        self._processes.append(process)
        return said

    def stop(self) -> None:
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def hear(said: Path, pattern: str, times: int = 1) -> str:
    """Wait until a log says it so many times."""
    deadline = monotonic() + STARTS_WITHIN_S
    while len(found := re.findall(pattern, said.read_text("utf-8", "replace"))) < times:
        assert monotonic() < deadline, said.read_text("utf-8", "replace")[-2000:]
        sleep(0.2)
    return str(found[0])


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cluster = Cluster(tmp_path_factory.mktemp("spark"))
    local = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    try:
        said = cluster.start("master", "master.Master", *local)
        address = hear(said, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        for number in range(2):
            place = cluster._folder / f"work-{number}"
            words = (*local, "--cores", "1", "--memory", "1200m", "--work-dir", str(place), address)
            cluster.start(f"worker-{number}", "worker.Worker", *words)
        hear(said, r"Registering worker", times=2)
        yield address
    finally:
        cluster.stop()


@pytest.mark.long
@pytest.mark.slow
def test_a_cluster_finds_what_this_machine_finds(master: str, tmp_path: Path) -> None:
    """Two workers play the same trials: the counts are equal, cell by cell."""
    found = []
    for name, where in (("cluster", master), ("local", "local[2]")):
        folder = tmp_path / name
        command = [
            sys.executable,
            "-m",
            "tidelog",
            "sweep",
            "--out",
            str(folder),
            "--json",
            "--seeds",
            "30",
        ]
        command += ["--generation", "hw,epoch", "--acks", "1,all", "--min-insync", "1", "--unclean", "no"]
        command += ["--flush", "roll", "--faults", "crash,all", "--master", where]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=280, env=environment
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0]["trials"] == 8 * 30
    assert found[0]["cells"] == found[1]["cells"]
    assert (tmp_path / "cluster" / "atlas.html").stat().st_size > 10_000
