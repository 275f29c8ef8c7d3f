"""A run of the simulator leaves the same evidence as a trial on real processes."""

from collections import Counter
from pathlib import Path

import pytest

from tidelog.evidence.folder import COMPLETE, Manifest
from tidelog.evidence.parquet.parts import rows_of
from tidelog.evidence.tables import EVENTS, LEDGER, READS, RECORDS, REPLICAS
from tidelog.lab.play import run
from tidelog.narrate.run import client_lines
from tidelog.process_stage.evidence import export
from tidelog.scenario import catalogue
from tidelog.scenario.clients.events import Outcome


@pytest.mark.parametrize("generation", ["hw", "epoch", "majority"])
@pytest.mark.parametrize("name", catalogue.names())
def test_every_known_failure_can_be_exported(name: str, generation: str, tmp_path: Path):
    """Each send, each read, each record of each replica is there, equal to the run's."""
    played = run(catalogue.load(name).under(generation))
    path = export(played, tmp_path / "e")
    manifest = Manifest.read(path)
    assert (manifest.stage, manifest.state, manifest.generation) == ("sim", COMPLETE, generation)
    ledger = list(rows_of(path, LEDGER))
    assert [(row["producer"], row["value"]) for row in ledger] == [
        (s.producer, s.value) for s in played.ledger
    ]
    assert [row["outcome"] for row in ledger] == [(s.outcome or Outcome.UNKNOWN).value for s in played.ledger]
    assert all(row["sent_us"] <= row.get("settled_us", row["sent_us"]) for row in ledger)
    told = Counter(line for step in played.played for line in client_lines(step) if "reads" in line)
    assert len(list(rows_of(path, READS))) == sum(told.values())
    records = Counter(row["broker"] for row in rows_of(path, RECORDS))
    ends = {row["broker"]: row["log_end_offset"] for row in rows_of(path, REPLICAS)}
    assert all(records[broker] == end for broker, end in ends.items())
    assert list(rows_of(path, EVENTS))


def test_what_the_lab_calls_lost_can_be_seen_in_the_evidence(tmp_path: Path):
    """Acknowledged in the ledger, absent from the leader's committed records."""
    played = run(catalogue.load("hw-loss").under("hw"))
    path = export(played, tmp_path / "e")
    leader = next(row for row in rows_of(path, REPLICAS) if row["broker"] == row["leader"])
    final = {
        row["value"]
        for row in rows_of(path, RECORDS)
        if row["broker"] == leader["broker"] and row["offset"] < leader["high_watermark"]
    }
    lost = {row["value"] for row in rows_of(path, LEDGER) if row["outcome"] == "ok"} - final
    assert lost == {finding["value"] for finding in played.verdict.lost} != set()


def test_an_error_has_its_name_and_its_code(tmp_path: Path):
    path = export(run(catalogue.load("min-insync-before").under("epoch")), tmp_path / "e")
    failed = [row for row in rows_of(path, LEDGER) if row["outcome"] != "ok"]
    assert failed
    assert {(row["error"], row.get("error_code")) for row in failed} == {("NOT_ENOUGH_REPLICAS", 19)}
