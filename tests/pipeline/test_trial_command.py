"""`tidelog trial` to its verdict: a cluster, load, faults, and then Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cli.calling import Answer, call, spawn

OPTIONS = "--seconds 4 --rate 300 --partitions 2 --producers 2 --consumers 1 --faults kill --seed 3"


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [call, pytest.param(partial(spawn, seconds_max=450), marks=pytest.mark.long)],
    ids=["on our Spark", "on its own"],
)
def test_a_trial_ends_with_the_verdict_of_its_audit(
    spark: SparkSession, tmp_path: Path, run: Callable[..., Answer]
) -> None:
    """One verdict, from Spark; the report, the findings and the JSON say the same. As a command of its own
    process it starts a Spark, which takes most of its time; here it finds one that is open."""
    answer = run("trial", *OPTIONS.split(), "--evidence", tmp_path / "e")
    assert answer.code == 0, answer
    assert answer.out.count("verdict ") == 1
    assert "verdict     Every acknowledged record is there." in answer.out
    assert "\nlost " not in answer.out
    phases = (
        "load and faults, 4 s",
        "starting Spark",
        "checking every record",
        "drawing the report",
    )
    for phase in phases:
        assert phase in answer.err
    told = json.loads((tmp_path / "e/audit/verdict.json").read_text())
    assert told["held"]
    assert told["conclusive"]
    report = (tmp_path / "e/audit/report.html").read_text()
    assert "<h1>Every acknowledged record is there.</h1>" in report
    assert f"All {told['totals']['sends']['ok']:,} of them" in report
    assert "Leaders and in-sync replicas" in report
    assert "Throughput" in report


@pytest.mark.slow
def test_a_trial_and_its_audit_from_python(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of the guide runs as it is printed."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/guide/trials.md").read_text("utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(example, "trials.md", "exec"), {})
    assert (tmp_path / "trial-1/audit/report.html").exists()
