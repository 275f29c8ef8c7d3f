"""Evidence on file systems of Hadoop: read, judged and written there, with the verdict that the same folder
gives on this machine. viewfs is in every Spark's jars; HDFS runs here with Hadoop's own test cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from bench.jars import hadoop_jars, java
from bench.synthetic_evidence import Shape, make_evidence
from pyspark.sql import SparkSession
from tests.pipeline.judged import found_rows, judge_evidence

from tidelog.pipeline.files import Place

STARTS_WITHIN_S = 200.0
SENDS = 20_000

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Segment files, tables, and a few anomalies."""
    folder = tmp_path_factory.mktemp("addresses") / "e"
    make_evidence(folder, Shape.of(SENDS))
    return folder


@pytest.fixture(scope="module")
def wanted(evidence: Path) -> dict[str, Any]:
    return judge_evidence(evidence).as_json()


def audited(address: str, *words: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    command = [sys.executable, "-m", "tidelog.cli", "audit", address, "--json", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def same(told: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert {name: told[name] for name in wanted} == wanted


# ---------------------------------------------------------------- viewfs


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--engine", "local"), id="local"),
        pytest.param(("--master", "local[2]"), id="spark", marks=pytest.mark.long),
    ],
)
def test_a_file_system_that_only_hadoop_knows(
    evidence: Path, wanted: dict[str, Any], tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Its settings are a site's own, in HADOOP_CONF_DIR; what is written appears there."""
    rows = sorted(found_rows(evidence), key=str)
    for file in (evidence / "audit/anomalies").iterdir():
        file.unlink()
    mount = f"<name>fs.viewfs.mounttable.site.link./trials</name><value>{evidence.parent.as_uri()}</value>"
    (tmp_path / "core-site.xml").write_text(f"<configuration><property>{mount}</property></configuration>")
    told = audited("viewfs://site/trials/e", *words, environment={"HADOOP_CONF_DIR": str(tmp_path)})
    same(told, wanted)
    assert told["report"] == "viewfs://site/trials/e/audit/report.html"
    assert "</html>" in (evidence / "audit/report.html").read_text()
    assert sorted(found_rows(evidence), key=str) == rows


# ---------------------------------------------------------------- HDFS


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A name node and a data node, in one process."""
    folder = tmp_path_factory.mktemp("hdfs")
    details = folder / "details"
    command = [java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{hadoop_jars()}/*"]
    command += ["org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes", "1"]
    command += ["-D", f"hdfs.minidfs.basedir={folder / 'data'}", "-writeDetails", str(details)]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said, start_new_session=True)
    try:
        deadline = monotonic() + STARTS_WITHIN_S
        while not (details.exists() and (text := details.read_text()).endswith("}")):
            alive = process.poll() is None and monotonic() < deadline
            assert alive, (folder / "said").read_text()[-2000:]
            sleep(0.2)
        yield f"hdfs://localhost:{json.loads(text)['namenode_port']}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def on_hdfs(hdfs: str, evidence: Path) -> str:
    """The same evidence, put there through the interface that the audit uses."""
    place = Place.of(f"{hdfs}/trials/e")
    for path in sorted(evidence.rglob("*")):
        if path.is_file() and "audit" not in path.relative_to(evidence).parts:
            place.write(str(path.relative_to(evidence)), path.read_bytes())
    return place.address


@pytest.mark.long
def test_hdfs(spark: SparkSession, on_hdfs: str, evidence: Path, wanted: dict[str, Any]) -> None:
    """Judged by processes and by Spark; verdict, report and table of findings are there, and Spark, which has
    a client of its own, reads the table."""
    same(audited(on_hdfs, "--engine", "local"), wanted)
    found = spark.read.parquet(f"{on_hdfs}/audit/anomalies").collect()
    assert len(found) == len(found_rows(evidence)) > 0
    same(audited(on_hdfs, "--master", "local[2]"), wanted)
    assert spark.read.parquet(f"{on_hdfs}/audit/anomalies").count() == len(found)
    assert b"</html>" in Place.of(on_hdfs).read("audit/report.html")


@pytest.mark.long
def test_segments_on_hdfs_are_a_table(spark: SparkSession, on_hdfs: str, evidence: Path) -> None:
    tables = [spark.read.format("tidelog_log").load(place) for place in (on_hdfs, str(evidence))]
    there, here = (
        sorted(map(tuple, table.groupBy("broker", "partition").agg({"*": "count"}).collect()))
        for table in tables
    )
    assert there == here
    assert sum(row[2] for row in there) >= 2 * SENDS


@pytest.mark.long
def test_files_of_hdfs(hdfs: str) -> None:
    """Small and large, whole and in part."""
    place = Place.of(f"{hdfs}/files")
    content = bytes(range(256)) * 400
    place.write("a/b", content)
    place.write("a/b", content[::-1])
    place.write("a/c/d", b"")
    assert (place.listed("a"), place.folders("a")) == ({"b": len(content)}, ["c"])
    assert place.listed("nothing") == {}
    assert (place.size("a/b"), place.size("a/x"), place.size("a/c")) == (len(content), None, None)
    with place.open("a/b") as source:
        assert source.read_at(3, 7) == content[::-1][7:10]
        assert source.read_at(90_000, 5_000) == content[::-1][5_000:95_000]
        assert source.read_at(10, len(content) - 4) == content[::-1][-4:]
        assert source.size() == len(content)
    with pytest.raises(FileNotFoundError), place.open("a/x"):
        pass
    place.remove("a")
    assert place.folders() == []


def test_nothing_listens_there() -> None:
    """One line that says so."""
    command = [sys.executable, "-m", "tidelog.cli", "audit", "hdfs://127.0.0.1:1/e", "--engine", "local"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "127.0.0.1:1" in done.stderr
    assert done.stderr.count("\n") == 1
