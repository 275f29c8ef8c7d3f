"""The short answer at the end of a trial, from evidence that is made up for it."""

from pathlib import Path
from typing import Any

import pytest

from tidelog.evidence.event_schema import Row
from tidelog.evidence.folder import COMPLETE, EvidenceFolder, Manifest
from tidelog.evidence.parquet.parts import PartWriter
from tidelog.evidence.tables import FAULTS, LEDGER, READS, Table
from tidelog.trials.summary import Outage, TrialSummary, summarize


@pytest.fixture
def folder(tmp_path: Path) -> EvidenceFolder:
    manifest = Manifest(
        "cluster", COMPLETE, load_started_us=0, load_ended_us=10_000_000, final_reader="final"
    )
    return EvidenceFolder.create(tmp_path / "e", manifest)


def write(folder: EvidenceFolder, table: Table, rows: list[Row]) -> None:
    writer = PartWriter(folder.path / table.name, table, rows_max=3)
    for row in rows:
        writer.write(row)
    writer.close()


def send(producer: str, sequence: int, outcome: str = "ok", **more: Any) -> Row:
    return {
        "producer": producer,
        "sequence": sequence,
        "value": f"{producer}-{sequence}",
        "outcome": outcome,
        "topic": "t",
        "partition": 0,
        "offset": sequence,
        "acks": -1,
        "idempotent": False,
        "sent_us": sequence * 1000,
        "settled_us": sequence * 1000 + 500,
        **more,
    }


def read(value: str, offset: int, consumer: str = "final") -> Row:
    return {"consumer": consumer, "topic": "t", "partition": 0, "offset": offset, "value": value}


def closed(folder: EvidenceFolder, sends: list[Row], reads: list[Row]) -> TrialSummary:
    write(folder, LEDGER, sends)
    write(folder, READS, reads)
    return summarize(folder)


def test_what_was_acknowledged_and_is_not_in_the_final_log_is_lost(folder: EvidenceFolder):
    """Whatever other consumers had read of it; unknown and failed sends cannot be lost."""
    closing = closed(
        folder,
        [
            send("p1", 0),
            send("p1", 1),
            send("p1", 2, "unknown"),
            send("p1", 3, "failed"),
            send("p2", 0, acks=1),
            send("p2", 1, acks=0, offset=None),
            send("p11", 0),
        ],
        [read("p1-0", 0), read("p1-1", 1, "c1"), read("p11-0", 2)],
    )
    assert (closing.lost, closing.lost_by_acks) == (2, {"all": 1, "1": 1})
    assert [example["value"] for example in closing.lost_examples] == ["p1-1", "p2-0"]
    assert closing.unconfirmed_missing == 1
    assert closing.checked
    assert not closing.held
    assert (closing.sent, closing.ok, closing.failed, closing.unknown) == (7, 5, 1, 1)
    assert closing.reads == {"final": 2, "c1": 1}


def test_nothing_lost_is_held(folder: EvidenceFolder):
    closing = closed(folder, [send("p1", 0)], [read("p1-0", 0)])
    assert closing.held
    assert closing.as_json()["lost"] == 0


def test_repeats_are_the_business_of_producers_that_are_not_idempotent(folder: EvidenceFolder):
    sends = [send("p1", 0), send("p2", 0, idempotent=True)]
    closing = closed(folder, sends, [read("p1-0", 0), read("p2-0", 1), read("p1-0", 2)])
    assert (closing.repeated, closing.duplicated) == (1, 0)
    assert closing.held


def test_a_repeat_of_an_idempotent_producer_is_told_apart(folder: EvidenceFolder):
    """Whether a broker or the client library is to blame is for an audit to say."""
    closing = closed(folder, [send("p2", 0, idempotent=True)], [read("p2-0", 1), read("p2-0", 2)])
    assert (closing.repeated, closing.duplicated, closing.duplicated_examples) == (0, 1, ["p2-0"])


def test_without_a_final_read_nothing_can_be_said(folder: EvidenceFolder):
    folder.manifest.final_reader = None
    closing = closed(folder, [send("p1", 0)], [read("p1-0", 0, "c1")])
    assert not closing.checked
    assert not closing.held


def test_a_trial_without_a_single_send_can_be_closed(folder: EvidenceFolder):
    closing = summarize(folder)
    assert (closing.sent, closing.lost, closing.unavailable, closing.latency_ms) == (0, 0, [], {})


def test_a_partition_is_unavailable_while_a_send_waits_and_none_is_acknowledged(folder: EvidenceFolder):
    """A silence in which no send waited is none; acks=0 says nothing either way."""
    closing = closed(
        folder,
        [
            send("p1", 0, sent_us=0, settled_us=1_000),
            send("p1", 1, sent_us=2_000, settled_us=3_002_000),
            send("p1", 2, acks=0, sent_us=2_000_000, settled_us=2_000_100),
            # Five seconds later, at once.
            send("p1", 3, sent_us=8_000_000, settled_us=8_001_000),
            # Another partition, at the same time.
            send("p1", 4, partition=1, sent_us=0, settled_us=1_000),
            send("p1", 5, partition=1, sent_us=1_000_000, settled_us=2_500_000),
        ],
        [],
    )
    assert closing.unavailable == [Outage(0, 2, 3_002), Outage(1, 1_000, 2_500)]
    assert closing.unavailable[0].duration_ms == 3_000


def test_errors_and_faults_are_counted(folder: EvidenceFolder):
    write(
        folder,
        FAULTS,
        [
            {"number": 0, "kind": "kill", "began_us": 5},
            {"number": 1, "kind": "kill", "began_us": 6},
            {"number": 2, "kind": "cut", "error": "it could not be done"},
        ],
    )
    sends = [
        send("p1", 0, "unknown", error="_MSG_TIMED_OUT"),
        send("p1", 1, "unknown", settled_us=None),
        send("p1", 2, "failed", error="MESSAGE_TOO_LARGE"),
        send("p1", 3, "unknown", error="_MSG_TIMED_OUT"),
    ]
    closing = closed(folder, sends, [])
    assert closing.faults == {"kill": 2}
    assert closing.errors == {"_MSG_TIMED_OUT": 2, "(never reported)": 1, "MESSAGE_TOO_LARGE": 1}
