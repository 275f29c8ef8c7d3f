"""The same sweep through a Spark Connect server: another process does the work, and tells how it goes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pipeline.test_connect import remote  # noqa: F401  (a fixture)


@pytest.mark.long
@pytest.mark.slow
def test_a_server_plays_the_same_trials(remote: str, tmp_path: Path) -> None:  # noqa: F811
    """Counts, schedules and page are there, and the same command finds nothing left to do."""
    command = [sys.executable, "-m", "tidelog", "sweep", "--out", str(tmp_path / "atlas"), "--json"]
    command += ["--generation", "hw,epoch", "--acks", "1,all", "--min-insync", "1", "--unclean", "no"]
    command += ["--flush", "roll", "--faults", "crash", "--seeds", "40", "--remote", remote]
    found = []
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0]["trials"] == 4 * 40
    assert found[0]["cells"] == found[1]["cells"]
    assert "160 trials already played" in done.stderr
    assert found[0]["schedules"]
    assert (tmp_path / "atlas" / "atlas.html").exists()
