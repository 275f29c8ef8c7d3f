"""The Java client, the last 3.x (Spark's connector uses it) and today's: one program, compiled for each."""

from __future__ import annotations

import subprocess

import pytest
from bench.jars import java
from bench.processes import PATIENCE_SECONDS
from tests.clients.conftest import Cluster, Topics
from tests.clients.matrix.remote import JAVA_CLIENTS, compiled

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EVERYTHING = [
    "create",
    *(f"produce {codec}" for codec in CODECS),
    *("consume", "offsets", "describe", "list offsets", "log folders"),
    *("access rules are off", "transactions, or why not"),
    *("configs", "delete records", "create partitions", "elect leaders", "delete"),
]


@pytest.mark.slow
@pytest.mark.parametrize("version", JAVA_CLIENTS)
def test_java_client(version: str, cluster: Cluster, topics: Topics) -> None:
    """The Java client with default settings produces idempotently, consumes and administers."""
    done = subprocess.run(
        [java(), "-cp", compiled(version), "JavaClient", cluster.bootstrap_servers, topics.name("java")],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"ok {each}" for each in EVERYTHING]
