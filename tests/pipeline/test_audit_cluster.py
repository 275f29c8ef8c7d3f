"""The same audit on a standalone Spark cluster: a master and two workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pipeline.judged import found_rows, judge_evidence
from tests.pipeline.planted import FINAL, write
from tests.pipeline.sweep.test_cluster import master
from tests.pipeline.test_audits import CASES

__all__ = ["master"]


@pytest.mark.long
@pytest.mark.slow
def test_a_cluster_says_what_processes_say(master: str, tmp_path: Path) -> None:
    """Every planted anomaly, row by row; workers write their findings themselves."""
    path = write(tmp_path / "e", [planted for planted, _ in CASES.values()], final_reader=FINAL)
    wanted = judge_evidence(path).as_json()
    rows = sorted(found_rows(path), key=str)
    command = [sys.executable, "-m", "tidelog.cli", "audit", f"file://{path}", "--json", "--no-report"]
    done = subprocess.run([*command, "--master", master], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert {name: told[name] for name in wanted} == wanted
    assert sorted(found_rows(path), key=str) == rows
