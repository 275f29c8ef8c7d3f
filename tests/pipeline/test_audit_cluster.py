"""The same audit on a standalone Spark cluster: a master and two workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from bench.synthetic_evidence import Shape, make_evidence
from tests.pipeline.judged import found_rows, judge_evidence
from tests.pipeline.planted import FINAL, write
from tests.pipeline.sweep.test_cluster import STARTS_WITHIN_S, Cluster, hear, master
from tests.pipeline.test_audits import CASES

__all__ = ["master"]

pytestmark = [pytest.mark.slow, pytest.mark.long]


def started(path: Path, master: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tidelog.cli", "audit", f"file://{path}", "--json", "--no-report"]
    return subprocess.Popen(
        [*command, "--master", master],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
    )


def same(done: subprocess.Popen[str], wanted: dict[str, Any]) -> None:
    out, err = done.communicate(timeout=500)
    assert done.returncode == 1, err
    told = json.loads(out)
    assert {name: told[name] for name in wanted} == wanted


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    return write(tmp_path / "e", [planted for planted, _ in CASES.values()], final_reader=FINAL)


def test_a_cluster_says_what_processes_say(master: str, planted: Path) -> None:
    """Every planted anomaly, row by row; workers write their findings themselves."""
    wanted = judge_evidence(planted).as_json()
    rows = sorted(found_rows(planted), key=str)
    same(started(planted, master), wanted)
    assert sorted(found_rows(planted), key=str) == rows


# ---------------------------------------------------------------- workers without something


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the packages of this one, but without tidelog, which is a link there."""
    folder = tmp_path_factory.mktemp("bare") / "python"
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    python = folder / "bin/python"
    code = (
        "import pyarrow, pyspark, importlib.util as u; raise SystemExit(u.find_spec('tidelog') is not None)"
    )
    assert not subprocess.run([python, "-c", code], env={}, check=False).returncode
    return python


def elsewhere(bare_python: Path, conf: Path, path: str) -> dict[str, str]:
    """Settings of a job whose workers run that Python, with nothing of this one's on their path."""
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(f"spark.executorEnv.PYTHONPATH {path}\n")
    return {"PYSPARK_PYTHON": str(bare_python), "SPARK_CONF_DIR": str(conf)}


def test_workers_without_tidelog_get_it(
    master: str, planted: Path, bare_python: Path, tmp_path: Path
) -> None:
    wanted = judge_evidence(planted).as_json()
    same(started(planted, master, **elsewhere(bare_python, tmp_path / "conf", "/nowhere")), wanted)


def test_workers_that_lack_a_package_are_named(
    master: str, planted: Path, bare_python: Path, tmp_path: Path
) -> None:
    """One line within seconds, and no verdict: what could not be read is not health."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "crc32c.py").write_text("raise ModuleNotFoundError(\"No module named 'crc32c'\")\n")
    begun = monotonic()
    done = started(planted, master, **elsewhere(bare_python, tmp_path / "conf", str(hidden)))
    out, err = done.communicate(timeout=500)
    assert done.returncode == 2, out
    assert err.startswith("tidelog: Spark's workers cannot import crc32c: install it on every worker")
    assert err.count("\n") == 1
    assert (
        monotonic() - begun < 120
    )  # on a machine with much else to do; a Spark alone takes some ten seconds
    assert not (planted / "audit/verdict.json").exists()


def test_a_master_without_workers_is_named(tmp_path: Path, planted: Path) -> None:
    """Spark itself would wait for ever."""
    cluster = Cluster(tmp_path)
    try:
        said = cluster.start(
            "master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        address = hear(said, r"Starting Spark master at (spark://\S+)")
        done = started(planted, address)
        out, err = done.communicate(timeout=500)
    finally:
        cluster.stop()
    assert done.returncode == 2, out
    assert err.startswith(f"tidelog: no worker of {address} took the job within 60 s: start a worker")
    assert err.count("\n") == 1


# ---------------------------------------------------------------- a worker is killed


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Cluster, str, list[int]]]:
    """Its own master and two workers, with the process ids of the workers."""
    cluster = Cluster(tmp_path)
    local = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    try:
        said = cluster.start("master", "master.Master", *local)
        address = hear(said, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        for number in range(2):
            words = (*local, "--cores", "1", "--memory", "1200m", "--work-dir", str(tmp_path / f"w{number}"))
            cluster.start(f"worker-{number}", "worker.Worker", *words, address)
        hear(said, r"Registering worker", times=2)
        yield cluster, address, [process.pid for process in cluster._processes[1:]]
    finally:
        cluster.stop()


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
    cluster: tuple[Cluster, str, list[int]], tmp_path: Path
) -> None:
    """Its tasks are done again by the other one: the same verdict, the same findings."""
    _, address, workers = cluster
    path = tmp_path / "e"
    make_evidence(path, Shape.of(300_000))
    wanted = judge_evidence(path).as_json()
    rows = sorted(found_rows(path), key=str)
    done = started(path, address)
    number, said = first_to_run(tmp_path)
    os.killpg(workers[number], signal.SIGKILL)
    same(done, wanted)
    assert sorted(found_rows(path), key=str) == rows
    finished = said.read_text("utf-8", "replace").count("Finished task")
    assert finished < said.read_text("utf-8", "replace").count("Running task")


def first_to_run(folder: Path) -> tuple[int, Path]:
    """The number of the worker that runs a task first, and what it says. Which one that is, is chance: its
    executor may start long before the other one, and a stage may have a single task."""
    deadline = monotonic() + STARTS_WITHIN_S
    while True:
        for said in folder.glob("w?/app-*/*/stderr"):
            if "Running task" in said.read_text("utf-8", "replace"):
                return int(said.relative_to(folder).parts[0].removeprefix("w")), said
        assert monotonic() < deadline
        sleep(0.1)
