"""The Java client, the last 3.x (Spark's connector uses it) and today's: one program, compiled for each."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path

import pytest
from bench.jars import cache, java, keep, run_maven
from bench.processes import Unavailable
from tests.clients.conftest import Cluster, Topics

PROJECT = Path(__file__).parent / "java"

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EVERYTHING = [
    "create",
    *(f"produce {codec}" for codec in CODECS),
    *("consume", "offsets", "describe", "list offsets", "log folders"),
    *("configs", "delete records", "create partitions", "elect leaders", "delete"),
]


def compiled(version: str) -> str:
    """The class path of the program, compiled against this client unless that was done before."""
    sources = b"".join(path.read_bytes() for path in sorted(PROJECT.rglob("*.*")))
    folder = cache() / f"java-client-{version}-{hashlib.sha256(sources).hexdigest()[:12]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".java-client-") as scratch:
            made = Path(scratch, "made")
            goals = ("compiler:compile", "dependency:copy-dependencies")
            run_maven(PROJECT, *goals, f"-Dkafka.version={version}", f"-Dinto={made}")
            keep(made, folder)
    return f"{folder}/classes:{folder}/jars/*"


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_java_client(version: str, cluster: Cluster, topics: Topics) -> None:
    """The Java client with default settings produces idempotently, consumes and administers."""
    try:
        command = [java(), "-cp", compiled(version), "JavaClient"]
    except Unavailable as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [*command, cluster.bootstrap_servers, topics.name("java")],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"ok {each}" for each in EVERYTHING]
