"""Java and the jars of Apache Kafka: found on this machine, or fetched once through Maven into a cache.

The cache is `$XDG_CACHE_HOME/tidelog` (`~/.cache/tidelog`); nothing is ever written into the repository. A
folder appears in the cache whole or not at all, so two programs may fetch at the same time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.processes import Unavailable

KAFKA_VERSION = "4.3.1"

# The broker, its tools (DumpLogSegments is one of them), and a logger so that it can say what goes wrong.
KAFKA = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tidelog"


def java() -> str:
    """The Java to run with: JAVA_HOME's, or the one on the path."""
    if home := os.environ.get("JAVA_HOME"):
        return str(Path(home) / "bin" / "java")
    if found := shutil.which("java"):
        return found
    raise Unavailable("java not found: install a Java runtime, version 17 or later, or set JAVA_HOME")


def maven() -> str:
    if found := shutil.which("mvn"):
        return found
    raise Unavailable("mvn not found: install Maven (Debian: apt install maven) to fetch Apache Kafka")


def kafka_jars() -> Path:
    """The folder with everything that Apache Kafka's broker and tools need."""
    return fetched(f"apache-kafka-{KAFKA_VERSION}", KAFKA)


def fetched(name: str, artifacts: Sequence[str]) -> Path:
    """The folder in the cache that holds these artifacts and all they depend on, fetched if it is missing."""
    folder = cache() / "jars" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}-") as scratch:
        Path(scratch, "pom.xml").write_text(_pom(artifacts))
        run_maven(scratch, "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars")
        keep(Path(scratch, "jars"), folder)
    return folder


def keep(made: Path, folder: Path) -> None:
    """Move a finished folder to its place in the cache, unless somebody else was faster."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def run_maven(directory: str | Path, *arguments: str) -> None:
    done = subprocess.run(
        [maven(), "--batch-mode", "--quiet", *arguments],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        told = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise Unavailable(f"mvn failed: {told[0] if told else f'exit code {done.returncode}'}")


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
