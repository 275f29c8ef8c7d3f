"""Java and the jars of Apache Kafka: found on this machine, or fetched once through Maven into a cache.

The cache is `$XDG_CACHE_HOME/tidelog` (`~/.cache/tidelog`); nothing is ever written into the repository. What
is in it was made whole, and once: of several processes that want it one makes it, and the others wait.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.processes import Unavailable
from bench.tools import Missing, Tool, find

from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.spark.java import find_java

KAFKA_VERSION = "4.3.1"

# The broker, its tools (DumpLogSegments is one of them), and a logger so that it can say what goes wrong.
KAFKA = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)
MAVEN_SECONDS_MAX = 900.0

_in_vain: dict[str, Missing] = {}
"""What this process could not make: nobody waits for that twice."""


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tidelog"


def java() -> str:
    """The Java to run with: the one that Spark would be run with."""
    try:
        return str(find_java().executable)
    except PipelineError as error:
        raise Unavailable(str(error)) from None


def kafka_jars() -> Path:
    """The folder with everything that Apache Kafka's broker and tools need."""
    return cached(f"jars/apache-kafka-{KAFKA_VERSION}", lambda folder: _fetch(KAFKA, folder))


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """A file or folder of the cache; `make` is handed a path to make it at, if it is missing."""
    place = cache() / name
    if name in _in_vain:
        raise _in_vain[name]
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f".{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as scratch:
                made = Path(scratch, "made")
                try:
                    make(made)
                except Missing as missing:
                    _in_vain[name] = missing
                    raise
                made.rename(place)
    return place


def run_maven(directory: str | Path, *arguments: str) -> None:
    """`Missing` if there is no Maven, or if it fails: mostly because it cannot download."""
    command = [find(Tool.MAVEN), "--batch-mode", "--quiet", "-Dstyle.color=never", *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=MAVEN_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        raise Missing(Tool.MAVEN, f"mvn did not end within {MAVEN_SECONDS_MAX:g} s") from None
    if done.returncode:
        told = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise Missing(Tool.MAVEN, f"mvn failed: {told[0] if told else f'exit code {done.returncode}'}")


def _fetch(artifacts: Sequence[str], folder: Path) -> None:
    """Copy these artifacts and all they depend on into a new folder."""
    with tempfile.TemporaryDirectory() as project:
        Path(project, "pom.xml").write_text(_pom(artifacts))
        run_maven(
            project, "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"
        )


def _pom(artifacts: Sequence[str]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in (name.split(":") for name in artifacts)
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>tidelog</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )
