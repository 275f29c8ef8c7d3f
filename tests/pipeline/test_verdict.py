"""A verdict says what was found, what it is based on, and what could not be judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest
from tests.cli.calling import call
from tests.pipeline.judged import found_rows, judge_evidence
from tests.pipeline.planted import FINAL, Case, write

from tidelog.pipeline.audit import judging
from tidelog.pipeline.audit.anomalies import AUDITS
from tidelog.pipeline.audit.findings import EXAMPLES_MAX
from tidelog.pipeline.errors import PipelineError

LOST = [audit for audit in AUDITS if audit.name in ("lost", "phantom")]


def clean() -> Case:
    return Case("t").send("a", 0).send("b", 1).logs("a", "b").final((0, "a"), (1, "b"))


def test_clean_evidence_holds(tmp_path: Path) -> None:
    """No violation, no notice, totals of everything, and both files in place."""
    path = write(tmp_path / "e", [clean()], final_reader=FINAL)
    verdict = judge_evidence(path)
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
    assert len(found_rows(path)) == 0


def test_examples_are_bounded_and_counts_are_not(tmp_path: Path) -> None:
    """Of a thousand losses a few are shown, the earliest first, and all are counted; and judging the same
    evidence again replaces the verdict."""
    planted = Case("t").logs()
    for number in range(100):
        planted.send(f"v{number}", number)
    path = write(tmp_path / "e", [planted])
    for _ in range(2):
        verdict = judge_evidence(path, audits=LOST)
        assert not verdict.held
        assert verdict.counts["lost"] == {"violation": 100, "notice": 0}
        assert [example["value"] for example in verdict.examples["lost"]] == [
            f"v{number}" for number in range(EXAMPLES_MAX)
        ]
    assert len(found_rows(path)) == 100


def test_a_gap_in_the_ledger_keeps_phantoms_from_being_judged(tmp_path: Path) -> None:
    """What is not in a ledger with gaps may have been sent; losses can be judged all the same."""
    planted = Case("t").send("a", 0).send("b", 1).logs("a", "z").final((0, "a"), (1, "z"))
    planted.ledger[1]["sequence"] = 5
    verdict = judge_evidence(write(tmp_path / "e", [planted], final_reader=FINAL), audits=LOST)
    assert verdict.judged == ["lost"]
    assert {"lost": [e["value"] for e in verdict.examples["lost"]]} == {"lost": ["b"]}
    said = "\n".join(verdict.unjudged)
    assert "4 sends: the ledger has gaps in the numbers of t.p (4)" in said
    assert "phantom: the ledger is not whole" in said


def test_without_a_final_log_nothing_is_held(tmp_path: Path) -> None:
    """No replicas and no final read: that nothing was found says nothing, and the verdict says that."""
    planted = Case("t").send("a", 0).read("c", (0, "a"))
    verdict = judge_evidence(write(tmp_path / "e", [planted], state="running"))
    assert verdict.held
    assert not verdict.conclusive
    said = "\n".join(verdict.unjudged)
    assert "lost: neither replica logs nor a final read show what the topic holds" in said
    assert "the trial's state is running" in said


@pytest.mark.parametrize(("outcome", "conclusive"), [("ok", False), ("unknown", True)])
def test_a_partition_that_nothing_shows_is_not_health(tmp_path: Path, outcome: str, conclusive: bool) -> None:
    """Where something was acknowledged there, losses could not be judged."""
    dark = Case("u").send("a", 0 if outcome == "ok" else None, outcome)
    verdict = judge_evidence(write(tmp_path / "e", [clean(), dark], final_reader=FINAL))
    assert verdict.held
    assert verdict.conclusive == conclusive
    assert "what was sent to 1 partition: nothing shows what they hold at the end" in verdict.unjudged


def test_nothing_at_all_cannot_be_judged(tmp_path: Path) -> None:
    """An empty folder of evidence is refused in one line."""
    with pytest.raises(PipelineError, match="there is nothing to judge") as refused:
        judge_evidence(write(tmp_path / "e", []), audits=LOST)
    assert "\n" not in str(refused.value)


def test_damage_inside_a_file_costs_only_what_needs_it(tmp_path: Path) -> None:
    """What needs the damaged table is not judged and says so, the rest is."""
    path = write(tmp_path / "e", [clean().read("c", (0, "a"))], final_reader=FINAL)
    (reads,) = (path / "reads").glob("*.parquet")
    content = bytearray(reads.read_bytes())
    content[4 : len(content) // 3] = b"\xff" * (len(content) // 3 - 4)
    reads.write_bytes(bytes(content))
    wanted = [audit for audit in AUDITS if audit.name in ("lost", "rewritten")]
    verdict = judge_evidence(path, audits=wanted)
    assert verdict.judged == ["lost"]
    assert verdict.held
    assert not verdict.conclusive
    assert "rewritten: no consumer read anything" in verdict.unjudged
    assert any(entry.startswith("reads") and "\n" not in entry for entry in verdict.unjudged)


@pytest.mark.parametrize("table", ["ledger", "reads", "records", "replicas"])
def test_a_file_that_cannot_be_read_is_not_health(tmp_path: Path, table: str) -> None:
    """Nothing is found in what is left, and the verdict does not say that all is well."""
    path = write(tmp_path / "e", [clean().read("c", (0, "a"))], final_reader=FINAL)
    assert judge_evidence(path).conclusive
    (path / table / "torn.parquet").write_bytes(b"PAR1" + bytes(100))
    answer = call("audit", path, "--engine", "local", "--json", "--no-report")
    assert answer.code == 2
    told = json.loads(answer.out)
    assert (told["held"], told["conclusive"]) == (True, False)
    assert told["unreadable"][0].startswith(f"{table}/torn.parquet cannot be read")


@pytest.mark.parametrize(
    ("function", "names"),
    [
        ("unavailable", ["unavailable"]),
        ("exceptions", ["broker exception"]),
    ],
)
def test_one_audit_that_fails_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, names: list[str]
) -> None:
    """It is named as not judged, with the reason in one line."""

    def fails(*_: object) -> NoReturn:
        raise RuntimeError("no room\nat all")

    path = write(tmp_path / "e", [clean()], final_reader=FINAL)
    (path / "logs").mkdir()
    (path / "logs/broker-0.log").write_text("")
    everything = judge_evidence(path).judged
    monkeypatch.setattr(judging, function, fails)
    verdict = judge_evidence(path)
    assert verdict.judged == [name for name in everything if name not in names]
    assert len(everything) - len(verdict.judged) == len(names)
    assert all(f"{name}: no room" in verdict.unjudged for name in names)
    assert verdict.conclusive


class Interrupted:
    """An engine that is interrupted (Ctrl-C) in its first round."""

    name = "interrupted"

    def run(self, *_: object) -> NoReturn:
        raise KeyboardInterrupt

    def close(self) -> None: ...


def test_an_interrupted_audit_ends_and_leaves_no_scraps(tmp_path: Path) -> None:
    """Ctrl-C comes through, and nothing half done is left."""
    path = write(tmp_path / "e", [clean()], final_reader=FINAL)
    with pytest.raises(KeyboardInterrupt):
        judge_evidence(path, engine=Interrupted())
    assert not list((path / "audit").glob("*"))
