"""franz-go's own integration tests, pointed at tidelog: they come with its module."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from bench.jars import cache
from tests.clients.conftest import Cluster
from tests.clients.matrix.remote import GO_PROJECT, FranzGo
from tests.effort import takes_long

PACKAGE = "github.com/twmb/franz-go/pkg/kgo"
NOT_OFFERED = "Txn|Share|SCRAM|848"
"""Transactions, share groups, SASL and the consumer protocol of KIP-848."""
RECORDS = "20000"
SECONDS_MAX = 240


def suite() -> tuple[Path, str]:
    """The program that runs them, built unless that was done before, and the folder it wants to be in: some
    of them look at the sources."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("go not found: install Go (https://go.dev/dl) to run franz-go")
    program = cache() / f"franz-go-suite-{FranzGo.version()}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent, prefix=".franz-go-") as scratch:
            made = Path(scratch, "suite")
            command = [go, "test", "-c", "-o", str(made), PACKAGE]
            built = subprocess.run(command, cwd=GO_PROJECT, capture_output=True, text=True, check=False)
            if built.returncode:
                pytest.skip(f"go build failed: {built.stderr.strip().splitlines()[-1]}")
            made.rename(program)
    listed = [go, "list", "-f", "{{.Dir}}", PACKAGE]
    found = subprocess.run(listed, cwd=GO_PROJECT, capture_output=True, text=True, check=True)
    return program, found.stdout.strip()


@pytest.mark.slow
@takes_long
def test_franz_go_suite(cluster: Cluster) -> None:
    """Groups with every balancer, eager and cooperative, static or not; retries, pauses, purges, regular
    expressions: all but what is not offered yet."""
    program, folder = suite()
    environment = {
        **os.environ,
        "KGO_SEEDS": cluster.bootstrap_servers,
        "KGO_TEST_RF": str(min(3, len(cluster.brokers))),
        "KGO_TEST_RECORDS": RECORDS,
    }
    done = subprocess.run(
        [program, f"-test.skip={NOT_OFFERED}", f"-test.timeout={SECONDS_MAX}s"],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-1_000:]
