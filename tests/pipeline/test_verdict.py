"""A verdict says what was found, what it stands on, and what could not be judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.planted import FINAL, Case, write

from tidelog.pipeline.audit.anomalies import AUDITS
from tidelog.pipeline.audit.inputs import Inputs, load
from tidelog.pipeline.audit.verdict import EXAMPLES_MAX, judge
from tidelog.pipeline.errors import PipelineError

pytestmark = pytest.mark.slow

LOST = [audit for audit in AUDITS if audit.name in ("lost", "phantom")]


def clean() -> Case:
    return Case("t").send("a", 0).send("b", 1).logs("a", "b").final((0, "a"), (1, "b"))


def test_clean_evidence_holds(spark: SparkSession, tmp_path: Path) -> None:
    """No violation, no notice, totals of everything, and both files in place."""
    path = write(tmp_path / "e", [clean()], final_reader=FINAL)
    verdict = judge(load(spark, path))
    assert verdict.held
    assert verdict.conclusive
    assert (verdict.violations, verdict.notices, verdict.examples) == (0, 0, {})
    assert verdict.totals["sends"] == {
        "total": 2,
        "ok": 2,
        "failed": 0,
        "unknown": 0,
        "by_acks": {"all": {"ok": 2}},
        "producers": 1,
    }
    assert verdict.totals["records"] == {"0": 2, "1": 2}
    assert verdict.totals["reads"] == {FINAL: 2}
    written = json.loads((path / "audit" / "verdict.json").read_text("utf-8"))
    assert written == verdict.as_json()
    assert spark.read.parquet(str(path / "audit" / "anomalies")).count() == 0


@pytest.mark.long
def test_examples_are_bounded_and_counts_are_not(spark: SparkSession, tmp_path: Path) -> None:
    """Of a thousand losses a few are shown, the earliest first, and all are counted; and judging the same
    evidence again replaces the verdict."""
    planted = Case("t").logs()
    for number in range(100):
        planted.send(f"v{number}", number)
    path = write(tmp_path / "e", [planted])
    for _ in range(2):
        verdict = judge(load(spark, path), audits=LOST)
        assert not verdict.held
        assert verdict.counts["lost"] == {"violation": 100, "notice": 0}
        assert [example["value"] for example in verdict.examples["lost"]] == [
            f"v{number}" for number in range(EXAMPLES_MAX)
        ]
    assert spark.read.parquet(str(path / "audit" / "anomalies")).count() == 100


def test_a_gap_in_the_ledger_keeps_phantoms_from_being_judged(spark: SparkSession, tmp_path: Path) -> None:
    """What is not in a ledger with gaps may have been sent; losses can be judged all the same."""
    planted = Case("t").send("a", 0).send("b", 1).logs("a", "z").final((0, "a"), (1, "z"))
    planted.ledger[1]["sequence"] = 5
    verdict = judge(load(spark, write(tmp_path / "e", [planted], final_reader=FINAL)), audits=LOST)
    assert verdict.judged == ["lost"]
    assert {"lost": [e["value"] for e in verdict.examples["lost"]]} == {"lost": ["b"]}
    said = "\n".join(verdict.unjudged)
    assert "4 sends: the ledger has gaps in the numbers of t.p (4)" in said
    assert "phantom: the ledger is not whole" in said


def test_without_a_final_log_nothing_is_held(spark: SparkSession, tmp_path: Path) -> None:
    """No replicas and no final read: that nothing was found says nothing, and the verdict says that."""
    planted = Case("t").send("a", 0).read("c", (0, "a"))
    verdict = judge(load(spark, write(tmp_path / "e", [planted], state="running")))
    assert verdict.held
    assert not verdict.conclusive
    said = "\n".join(verdict.unjudged)
    assert "lost: neither replica logs nor a final read show what the topic holds" in said
    assert "the trial's state is running" in said


def test_nothing_at_all_cannot_be_judged(spark: SparkSession, tmp_path: Path) -> None:
    """An empty folder of evidence is refused in one line."""
    with pytest.raises(PipelineError, match="there is nothing to judge") as refused:
        judge(load(spark, write(tmp_path / "e", [])), audits=LOST)
    assert "\n" not in str(refused.value)


def test_damage_inside_a_file_costs_only_what_needs_it(spark: SparkSession, tmp_path: Path) -> None:
    """What needs the damaged table is not judged and says so, the rest is."""
    path = write(tmp_path / "e", [clean().read("c", (0, "a"))], final_reader=FINAL)
    (reads,) = (path / "reads").glob("*.parquet")
    content = bytearray(reads.read_bytes())
    content[4 : len(content) // 3] = b"\xff" * (len(content) // 3 - 4)
    reads.write_bytes(bytes(content))
    wanted = [audit for audit in AUDITS if audit.name in ("lost", "rewritten")]
    verdict = judge(load(spark, path), audits=wanted)
    assert verdict.judged == ["lost"]
    assert verdict.held
    assert "rewritten: nobody read anything" in verdict.unjudged
    assert any(entry.startswith("reads") and "\n" not in entry for entry in verdict.unjudged)


def test_one_audit_that_fails_leaves_the_others(spark: SparkSession, tmp_path: Path) -> None:
    """It is named as not judged, with the reason in one line."""

    def find(inputs: Inputs) -> NoReturn:
        raise RuntimeError("no room\nat all")

    broken = replace(LOST[1], find=find)
    verdict = judge(
        load(spark, write(tmp_path / "e", [clean()], final_reader=FINAL)), audits=[LOST[0], broken]
    )
    assert verdict.judged == ["lost"]
    assert "phantom: no room" in verdict.unjudged


def test_an_interrupted_audit_ends_and_leaves_no_scraps(spark: SparkSession, tmp_path: Path) -> None:
    """Ctrl-C comes through, and raw findings are removed."""

    def interrupted(inputs: Inputs) -> NoReturn:
        raise KeyboardInterrupt

    path = write(tmp_path / "e", [clean()], final_reader=FINAL)
    with pytest.raises(KeyboardInterrupt):
        judge(load(spark, path), audits=[LOST[0], replace(LOST[1], find=interrupted)])
    assert not list((path / "audit").glob("*"))
