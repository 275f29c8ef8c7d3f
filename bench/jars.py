"""Java and the jars of Apache Kafka and Hadoop: found here, or fetched once through Maven into a cache.

The cache is `$XDG_CACHE_HOME/tidelog` (`~/.cache/tidelog`); nothing is ever written into the repository. What
is in it was made whole, and once: of several processes that want it one makes it, and the others wait.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
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
# The last release line that many clusters with ZooKeeper still run: its log files are recorded for tests.
OLD_KAFKA_VERSION = "2.7.1"
OLD_KAFKA = (f"org.apache.kafka:kafka_2.13:{OLD_KAFKA_VERSION}", "org.slf4j:slf4j-log4j12:1.7.30")
# A name node and data nodes for tests. Spark's jars have only Hadoop's clients, of the same version.
HADOOP_VERSION = "3.5.0"
HADOOP = (f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP_VERSION}",)
# Spark's own source of Kafka's topics, which Spark does not bring; what else these name Spark has. The
# provider of tokens is of a version that every registry has; its classes have not changed.
SPARK_KAFKA = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:{}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}",
    "org.apache.commons:commons-pool2:2.12.1",
)
# Delta tables, of the release that was made for the Spark that is installed.
SPARK_DELTA = (
    "io.delta:delta-spark_4.2_2.13:4.4.0",
    "io.delta:delta-storage:4.4.0",
    *(f"io.delta:delta-kernel-{part}:4.4.0" for part in ("api", "defaults", "unitycatalog")),
    *(f"io.unitycatalog:unitycatalog-{part}:0.6.0" for part in ("client", "hadoop")),
)
MAVEN_SECONDS_MAX = 900.0

_in_vain: dict[str, Missing] = {}
"""What this process could not make: it is not tried a second time."""


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


def old_kafka_jars() -> Path:
    """The folder with a broker of before KRaft, and the ZooKeeper that it needs."""
    return cached(f"jars/apache-kafka-{OLD_KAFKA_VERSION}", lambda folder: _fetch(OLD_KAFKA, folder))


def hadoop_jars() -> Path:
    """The folder with everything that an HDFS of one process needs."""
    return cached(f"jars/hadoop-{HADOOP_VERSION}", lambda folder: _fetch(HADOOP, folder))


def spark_kafka_jars() -> list[Path]:
    """What Spark needs to read Kafka's topics, for the Spark that is installed."""
    version = metadata.version("pyspark")
    wanted = [artifact.format(version) for artifact in SPARK_KAFKA]
    folder = cached(f"jars/spark-kafka-{version}", lambda folder: _fetch(wanted, folder, alone=True))
    return sorted(folder.glob("*.jar"))


def spark_delta_jars() -> list[Path]:
    """What Spark needs for Delta tables, for the Spark that is installed."""
    version = metadata.version("pyspark")
    folder = cached(f"jars/spark-delta-{version}", lambda folder: _fetch(SPARK_DELTA, folder, alone=True))
    return sorted(folder.glob("*.jar"))


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


def _fetch(artifacts: Sequence[str], folder: Path, *, alone: bool = False) -> None:
    """Copy these artifacts and all they depend on into a new folder; `alone`: only these."""
    with tempfile.TemporaryDirectory() as project:
        Path(project, "pom.xml").write_text(_pom(artifacts, _NOTHING_ELSE if alone else ""))
        run_maven(
            project, "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"
        )


_NOTHING_ELSE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def _pom(artifacts: Sequence[str], exclusions: str) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{exclusions}</dependency>"
        for group, artifact, version in (name.split(":") for name in artifacts)
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>tidelog</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )
