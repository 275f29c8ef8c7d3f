"""The audit through a Spark Connect server: another process, possibly another machine, does the work."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pyspark
import pytest
from tests.pipeline.simulated import compare, write_batch

from tidelog.lab.play import run
from tidelog.pipeline.spark.java import find_java, launcher_home
from tidelog.scenario import catalogue

STARTS_WITHIN_S = 200.0
_ADDRESS = re.compile(r"Spark Connect server started at: 127\.0\.0\.1:(\d+)")


@pytest.fixture(scope="module")
def remote() -> Iterator[str]:
    """A server out of PySpark's own jars, on a port that was free."""
    home = Path(pyspark.__file__).parent
    loopback = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.artifact.isolation.enabled": "false",
    }
    command = [
        *(str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "768m"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
        *(word for name, value in loopback.items() for word in ("--conf", f"{name}={value}")),
        "spark-internal",
    ]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(launcher_home(find_java())),
        "PYSPARK_PYTHON": sys.executable,
    }
    with tempfile.TemporaryFile("w+") as said:
        server = subprocess.Popen(
            command, stdout=said, stderr=said, env=environment, start_new_session=True, text=True
        )
        try:
            yield f"sc://127.0.0.1:{_port(server, Path(f'/proc/self/fd/{said.fileno()}'))}"
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _port(server: subprocess.Popen[str], said: Path) -> int:
    deadline = monotonic() + STARTS_WITHIN_S
    while not (found := _ADDRESS.search(said.read_text())):
        assert server.poll() is None, said.read_text()[-2000:]
        assert monotonic() < deadline
        sleep(0.2)
    return int(found[1])


@pytest.mark.long
@pytest.mark.slow
def test_an_audit_elsewhere_says_the_same(remote: str, tmp_path: Path) -> None:
    """What a Spark Connect server finds in simulated runs is what the lab knows of them, which is what the
    Spark of this machine finds (`test_agreement`)."""
    runs = [run(catalogue.load(name).under("hw")) for name in ("hw-loss", "retries-duplicate")]
    path = write_batch(runs, tmp_path / "e")
    # In a process of its own: one process cannot have both kinds of session.
    command = [sys.executable, "-m", "tidelog", "audit", str(path), "--json", "--no-report"]
    done = subprocess.run([*command, "--remote", remote], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["counts"]["lost"]["violation"] > 0
    assert verdict["unexplained"] == 0
    assert compare(path, runs) == []
