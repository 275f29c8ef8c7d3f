"""A topic against a table on a standalone Spark cluster: a master and two workers, one of which is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from bench.continuity import PARTITIONS, write_topic
from tests.pipeline.sweep.test_cluster import Cluster
from tests.pipeline.test_audit_cluster import cluster, first_to_run

__all__ = ["cluster"]

OFFSETS = 200_000


def write_table(folder: Path) -> None:
    """Every offset of the topic, but 1,000 of one partition."""
    folder.mkdir()
    for partition in range(PARTITIONS):
        offsets = [each for each in range(OFFSETS) if partition or not 5_000 <= each < 6_000]
        columns = {
            "topic": pa.array(["t"]).take(pa.array([0] * len(offsets))),
            "partition": pa.array([partition] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
        }
        pq.write_table(pa.table(columns), folder / f"{partition}.parquet", row_group_size=100_000)


def started(folder: Path, master: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tidelog", "audit", "--topic", "t", "--logs", str(folder / "logs")]
    return subprocess.Popen(
        [*command, "--table", str(folder / "table"), "--master", master, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )


@pytest.mark.long
@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(
    cluster: tuple[Cluster, str, list[int]], tmp_path: Path
) -> None:
    """The other one does its tasks again: the same verdict, count by count, as on this machine."""
    _, address, workers = cluster
    write_topic(tmp_path / "logs", 0, OFFSETS)
    write_table(tmp_path / "table")
    done = started(tmp_path, address)
    number, _ = first_to_run(tmp_path)
    os.killpg(workers[number], signal.SIGKILL)
    out, err = done.communicate(timeout=500)
    assert done.returncode == 1, err
    found = json.loads(out)
    assert (found["lost"], found["offsets"]) == (1_000, PARTITIONS * OFFSETS)
    alone, err = started(tmp_path, "local[2]").communicate(timeout=500)
    assert json.loads(alone) == found, err
