"""``tidelog audit``: what it refuses, and how it tells a verdict. Spark is only started elsewhere."""

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calling import call, refused
from tests.pipeline import samples
from tests.pipeline.reconcile.specimens import made, written

from tidelog.cli.show.audit import exit_code, present
from tidelog.evidence.folder import COMPLETE, RUNNING, EvidenceFolder, Manifest
from tidelog.evidence.parquet.parts import PartWriter
from tidelog.evidence.tables import LEDGER
from tidelog.pipeline.audit.run import Audited


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """A folder with one send in its ledger."""
    folder = EvidenceFolder.create(tmp_path / "e", Manifest("cluster", state=COMPLETE))
    folder.release()
    writer = PartWriter(folder.path / LEDGER.name, LEDGER)
    writer.write({"producer": "p", "sequence": 0, "outcome": "ok"})
    writer.close()
    return folder.path


# ---------------------------------------------------------------- refusals


def test_a_folder_that_is_not_there(tmp_path: Path):
    assert refused(call("audit", tmp_path / "nothing")) == f"{tmp_path}/nothing: there is no such folder"


def test_a_file(tmp_path: Path):
    (tmp_path / "f").write_text("")
    assert "is a file: give the folder that a trial left" in refused(call("audit", tmp_path / "f"))


def test_a_folder_without_evidence(tmp_path: Path):
    assert "is not a folder of evidence: it has no trial.json" in refused(call("audit", tmp_path))


def test_a_manifest_that_is_none(evidence: Path):
    (evidence / "trial.json").write_text("{]")
    message = "trial.json is invalid: it is damaged, line 1, column 2 is not JSON"
    for command in (("audit",), ("evidence", "show")):
        assert refused(call(*command, evidence)).endswith(message)
    (evidence / "trial.json").write_text("[]")
    assert refused(call("audit", evidence)).endswith("trial.json is invalid: it does not hold what it should")


def test_a_summary_without_a_ledger_promises_nothing(evidence: Path):
    assert "1 ok" in call("evidence", "show", evidence).out
    shutil.rmtree(evidence / "ledger")
    answer = call("evidence", "show", evidence)
    assert answer.code == 2
    assert "lost        unknown: there is no ledger" in answer.out
    assert "none: every" not in answer.out


def test_a_damaged_table_is_named(evidence: Path):
    damaged = min((evidence / "ledger").glob("*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-40])
    message = refused(call("evidence", "show", evidence))
    assert message.startswith(f"{damaged} is damaged, it is not a whole Parquet file: restore it")


def test_evidence_of_another_schema(evidence: Path):
    """What a later version wrote is not guessed at."""
    manifest = json.loads((evidence / "trial.json").read_text())
    (evidence / "trial.json").write_text(json.dumps(manifest | {"schema_version": 99}))
    assert "evidence of schema 99, this version reads 1" in refused(call("audit", evidence))


def test_a_trial_that_runs(evidence: Path):
    """Its writer holds the lock, so there is more to come."""
    lock = os.open(evidence / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        assert "wait for its end" in refused(call("audit", evidence))
    finally:
        os.close(lock)


def test_a_trial_that_was_killed(evidence: Path):
    manifest = Manifest.read(evidence)
    manifest.state = RUNNING
    manifest.write(evidence)
    assert f"first tidelog evidence recover {evidence}" in refused(call("audit", evidence))


def test_a_ledger_without_a_send(tmp_path: Path):
    EvidenceFolder.create(tmp_path / "e", Manifest("cluster", state=COMPLETE)).release()
    assert refused(call("audit", tmp_path / "e")).endswith("contains no sends: nothing to audit")


def test_a_report_and_none(evidence: Path):
    assert "--report and --no-report" in refused(call("audit", evidence, "--report", "f", "--no-report"))


def test_a_master_that_does_not_answer(evidence: Path):
    """Said at once and in one line, not after a minute of Spark's own attempts."""
    answer = call("audit", evidence, "--master", "spark://127.0.0.1:9", "--json")
    assert "cannot reach spark://127.0.0.1:9" in refused(answer)
    assert not (evidence / ".lock").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--master foo", "foo is no Spark master: it looks like spark://host:7077, local[2] or yarn"),
        ("--remote foo", "foo is no Spark Connect server: the address looks like sc://host:15002"),
        ("--report /nowhere/r.html", "/nowhere/r.html: there is no directory /nowhere"),
        ("--report /", "/: this is a directory, not a file"),
        ("--follow --report /r", "--follow writes no report: leave out --report and --no-report"),
        ("--follow --no-report", "--follow writes no report: leave out --report and --no-report"),
        ("--follow --engine local", "--engine local: --follow and --table run on Spark"),
    ],
)
def test_what_would_fail_late_is_refused_at_once(words: str, message: str, evidence: Path):
    """Also what would be ignored. Spark is not started, nothing is judged."""
    before = sorted(evidence.rglob("*"))
    assert refused(call("audit", evidence, *words.split())) == message
    assert sorted(evidence.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--engine local", "--engine local: --follow and --table run on Spark"),
        ("--master foo", "foo is no Spark master: it looks like spark://host:7077, local[2] or yarn"),
        ("--report /nowhere/r.html", "/nowhere/r.html: there is no directory /nowhere"),
        ("--state /dev/null/s", "the state cannot be written to /dev/null/s: not a directory"),
        ("--connect-offsets /nowhere", "/nowhere: there is no such file"),
    ],
)
def test_the_same_of_a_table(words: str, message: str, tmp_path: Path):
    logs = written(tmp_path / "t-0", made([("plain", 0, 1)])).parent
    table = ("--topic", "t", "--logs", logs, "--table", tmp_path)
    assert refused(call("audit", *table, *words.split())) == message


def test_two_kinds_of_spark(evidence: Path):
    answer = call("audit", evidence, "--master", "local[1]", "--remote", "sc://h", "--json")
    assert "leave out --master or --remote" in refused(answer)


# ---------------------------------------------------------------- the verdict


def audited(verdict: dict[str, Any], **changes: Any) -> Audited:
    return Audited(
        Path("trial-1"),
        verdict,
        samples.timeline(),
        samples.manifest(**changes),
        Path("trial-1/audit/report.html"),
    )


def test_a_violation_is_told_with_its_causes(capsys: pytest.CaptureFixture[str]):
    """One sentence, what was found, why, and where to read on."""
    found = audited(samples.verdict())
    present(found, notes=["broker 2 was slow"])
    lines = capsys.readouterr().out.splitlines()
    text = "\n".join(lines)
    assert "verdict     137 acknowledged records are lost." in lines
    assert "broken      137 acknowledged records lost" in lines
    assert "              120 × truncated to its own high watermark" in lines
    assert "                p3-0: broker 2 cut off p3-0" in lines
    assert "notice      5 duplicated records" in lines
    assert "note        broker 2 was slow" in lines
    assert "not checked unseen: there was no final read" in lines
    assert "report      trial-1/audit/report.html" in lines
    assert all(len(line) <= 80 for line in lines), text
    assert exit_code(found) == 1


def test_a_held_promise(capsys: pytest.CaptureFixture[str]):
    found = audited(samples.held())
    present(found)
    assert "verdict     Every acknowledged record is there.\n" in capsys.readouterr().out
    assert exit_code(found) == 0


def test_faults_that_were_planned_and_not_done_are_counted(capsys: pytest.CaptureFixture[str]):
    """The load may end before the turn of the last ones."""
    planned = [
        {"number": n, "kind": "kill", "targets": ["1"], "at_ms": n, "duration_ms": 1} for n in range(3)
    ]
    found = audited(samples.held(), schedule=planned)
    found.verdict["totals"]["faults"] = {"kill": 1, "pause": 1}
    present(found)
    said = " ".join(capsys.readouterr().out.split())
    assert "faults kill 1 · pause 1 · 1 planned not done" in said
    assert "All 50,000 of them, after 60 s of load with 2 of 3 planned faults." in said


def test_what_cannot_be_said_is_neither(capsys: pytest.CaptureFixture[str]):
    assert exit_code(audited(samples.held() | {"conclusive": False})) == 2


def test_scripts_get_all_of_it(capsys: pytest.CaptureFixture[str]):
    present(audited(samples.verdict()), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "violated"
    assert told["sentence"] == "137 acknowledged records are lost."
    assert told["counts"]["lost"]["violation"] == 137
    assert told["report"] == "trial-1/audit/report.html"


def test_the_help_names_the_exit_codes():
    answer = call("audit", "--help")
    assert answer.code == 0
    assert "0 every promise held, 1 a promise was broken," in answer.out
    assert "2 inconclusive or wrong usage" in answer.out
