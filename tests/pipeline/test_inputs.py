"""Evidence as it is found: whole, partial, damaged, or none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.pipeline.planted import FINAL, Case, write

from tidelog.narrate.phrasebook import say
from tidelog.pipeline.audit.evidence import Need, load
from tidelog.pipeline.errors import PipelineError


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    planted = Case("t").send("a", 0).logs("a").final((0, "a")).committed(1, 0, 1, [0, 1])
    return write(tmp_path / "e", [planted], final_reader=FINAL)


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="is not a folder of evidence"):
        load(tmp_path)


def test_evidence_of_another_schema_is_refused(evidence: Path) -> None:
    manifest = json.loads((evidence / "trial.json").read_text("utf-8"))
    (evidence / "trial.json").write_text(json.dumps(manifest | {"schema_version": 99}), "utf-8")
    with pytest.raises(PipelineError, match="evidence of schema 99") as refused:
        load(evidence)
    assert "\n" not in str(refused.value)


def test_missing_tables_take_their_facts_with_them(evidence: Path) -> None:
    """What can be judged follows from what is there."""
    assert {Need.SENDS, Need.REPLICA_LOGS, Need.FINAL_LOG} <= load(evidence).facts
    shutil.rmtree(evidence / "replicas")
    shutil.rmtree(evidence / "records")
    assert Need.REPLICA_LOGS not in load(evidence).facts
    shutil.rmtree(evidence / "ledger")
    assert not {Need.SENDS, Need.ALL_SENDS} & load(evidence).facts


def test_a_torn_file_is_left_out_and_named(evidence: Path) -> None:
    """A Parquet file without a footer costs its rows, not the audit."""
    (part,) = (evidence / "ledger").glob("*.parquet")
    (evidence / "ledger" / "torn.parquet").write_bytes(part.read_bytes()[:100])
    inputs = load(evidence)
    assert [sum(file.rows) for file in inputs.tables["ledger"]] == [1]
    assert list(map(say, inputs.unjudged)) == [
        "ledger/torn.parquet cannot be read and is left out: it is not a whole Parquet file"
    ]
    # Its sends may be in the log: they are no phantoms.
    assert Need.SENDS in inputs.facts
    assert Need.ALL_SENDS not in inputs.facts


def test_segment_files_that_are_gone_are_named(tmp_path: Path) -> None:
    """The table of replicas names a file; the file is not there."""
    planted = Case("t").send("a", 0).log(0)
    planted.replicas[0]["file"] = "cluster/broker-0/t-0/00000000000000000000.log"
    inputs = load(write(tmp_path / "e", [planted]))
    assert "t-0/00000000000000000000.log: the segment file is gone, and its records with it" in say(
        inputs.unjudged[0]
    )


def test_journals_that_are_left_mean_that_sends_are_missing(evidence: Path) -> None:
    """A trial was killed, its last sends are in journals: it is not known that something was not sent."""
    (evidence / "journal").mkdir()
    (evidence / "journal" / "ledger-p1.slots").write_bytes(b"")
    inputs = load(evidence)
    assert Need.ALL_SENDS not in inputs.facts
    assert "tidelog evidence recover" in say(inputs.unjudged[0])
