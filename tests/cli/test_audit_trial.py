"""A trial as a person runs it, to its verdict: a cluster, load, faults, and then Spark."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.cli.calling import COMMAND, environment
from tests.effort import takes_long

pytestmark = [takes_long, pytest.mark.slow, pytest.mark.timeout(500)]

_OPTIONS = (
    "--seconds 4 --rate 300 --partitions 2 --producers 2 --consumers 1 --faults kill --seed 3 --evidence e"
)


def test_a_trial_ends_with_the_verdict_of_its_audit(tmp_path: Path):
    """One verdict, from Spark; the report, the findings and the JSON say the same."""
    done = subprocess.run(
        [*COMMAND, "trial", *_OPTIONS.split()],
        cwd=tmp_path,
        capture_output=True,
        env=environment(80),
        check=False,
        timeout=450,
        text=True,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.count("verdict ") == 1
    assert "verdict     Every acknowledged record is there." in done.stdout
    assert "\nlost " not in done.stdout
    for phase in ("load and faults, 4 s", "starting Spark", "judging every promise", "drawing the report"):
        assert phase in done.stderr
    told = json.loads((tmp_path / "e/audit/verdict.json").read_text())
    assert told["held"]
    assert told["conclusive"]
    report = (tmp_path / "e/audit/report.html").read_text()
    assert "<h1>Every acknowledged record is there.</h1>" in report
    assert f"All {told['totals']['sends']['ok']:,} of them" in report
    assert "Leaders and in-sync replicas" in report
    assert "Throughput" in report
