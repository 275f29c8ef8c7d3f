"""franz-go's own integration tests, pointed at tidelog: they come with its module."""

from __future__ import annotations

import os
import subprocess

import pytest
from bench.tools import Tool, find
from tests.clients.conftest import Cluster
from tests.clients.matrix.remote import GO_PROJECT, FranzGo, built_with_go

PACKAGE = "github.com/twmb/franz-go/pkg/kgo"
NOT_OFFERED = "Txn|Share|SCRAM|848"
"""Transactions, share groups, SASL and the consumer protocol of KIP-848."""
RECORDS = "20000"
SECONDS_MAX = 540


def suite() -> tuple[str, str]:
    """The program that runs them, and the folder it wants to be in: some of them look at the sources."""
    program = built_with_go(f"franz-go-suite-{FranzGo.version()}", "test", "-c", PACKAGE)
    listed = [find(Tool.GO), "list", "-f", "{{.Dir}}", PACKAGE]
    found = subprocess.run(listed, cwd=GO_PROJECT, capture_output=True, text=True, check=True)
    return program, found.stdout.strip()


@pytest.mark.slow
@pytest.mark.long
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
