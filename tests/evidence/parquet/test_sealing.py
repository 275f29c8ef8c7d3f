"""Journals: what was stored survives the death of its writer, and becomes exactly the rows it was."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from bench.processes import PATIENCE_SECONDS

from tidelog.evidence.folder import COMPLETE, RUNNING, EvidenceError, EvidenceFolder, Manifest
from tidelog.evidence.journals.clients import FAILED, OK, UNKNOWN, LedgerJournal, ReadsJournal, plain
from tidelog.evidence.journals.lines import LineJournal
from tidelog.evidence.journals.slots import CorruptSlots, Slots, StillWritten, slot_files
from tidelog.evidence.parquet.parts import part_files, rows_of
from tidelog.evidence.parquet.recovery import seal_journals
from tidelog.evidence.parquet.sealing import Sealer, seal
from tidelog.evidence.tables import CLIENT_EVENTS, EVENTS, FAULTS, LEDGER, READS

PRODUCER: dict[str, Any] = {
    "producer": "p1",
    "zone": "az1",
    "topic": "orders",
    "acks": -1,
    "idempotent": True,
    "retries": None,
}


def intend(ledger: LedgerJournal, count: int = 1, key: bytes = b"") -> list[int]:
    numbers: list[int] = []
    for _ in range(count):
        value = b"p1-%d" % ledger.next_sequence
        padded = value + b" ...."
        numbers.append(
            ledger.intend(3, key, value, size=len(padded), crc=crc32(padded), now_us=1_000 + len(numbers))
        )
    return numbers


@pytest.fixture
def folder(tmp_path: Path) -> EvidenceFolder:
    return EvidenceFolder.create(tmp_path / "evidence", Manifest("cluster"))


@pytest.fixture
def seal_now(folder: EvidenceFolder) -> Callable[[Slots], None]:
    def sealed(slots: Slots) -> None:
        seal(slots, folder.path)

    return sealed


# ---------------------------------------------------------------- the ledger


def test_a_send_becomes_a_row_with_its_outcome(folder: EvidenceFolder, seal_now: Callable[[Slots], None]):
    """The three outcomes, and a send that was never settled, which is unknown too."""
    ledger = LedgerJournal(folder.journal, seal_now, **PRODUCER, rows=8)
    first, second, third, _ = intend(ledger, 4, b"k7")
    ledger.settle(first, OK, 42, 2_000)
    ledger.settle(second, FAILED, -1, 3_000, code=19, error="NOT_ENOUGH_REPLICAS")
    ledger.settle(third, UNKNOWN, -1, 4_000, code=-192, error="_MSG_TIMED_OUT")
    ledger.close()
    rows = list(rows_of(folder.path, LEDGER))
    assert [row["outcome"] for row in rows] == ["ok", "failed", "unknown", "unknown"]
    assert rows[0] == {
        "producer": "p1",
        "zone": "az1",
        "sequence": 0,
        "topic": "orders",
        "partition": 3,
        "key": "k7",
        "value": "p1-0",
        "value_bytes": 9,
        "value_crc32": crc32(b"p1-0 ...."),
        "acks": -1,
        "idempotent": True,
        "sent_us": 1_000,
        "settled_us": 2_000,
        "outcome": "ok",
        "offset": 42,
    }
    assert (rows[1]["error_code"], rows[1]["error"]) == (19, "NOT_ENOUGH_REPLICAS")
    assert (rows[2]["error_code"], rows[2]["error"]) == (-192, "_MSG_TIMED_OUT")
    assert not {"settled_us", "offset", "error", "error_code"} & rows[3].keys()


def test_offset_zero_is_an_offset(folder: EvidenceFolder, seal_now: Callable[[Slots], None]):
    ledger = LedgerJournal(folder.journal, seal_now, **PRODUCER, rows=8)
    (sequence,) = intend(ledger)
    ledger.settle(sequence, OK, 0, 2_000)
    ledger.close()
    assert next(rows_of(folder.path, LEDGER))["offset"] == 0


def test_a_full_journal_is_sealed_when_its_last_send_is_settled(
    folder: EvidenceFolder, seal_now: Callable[[Slots], None]
):
    """Not before: an outcome belongs into the same row as the send."""
    ledger = LedgerJournal(folder.journal, seal_now, **PRODUCER, rows=8)
    sequences = intend(ledger, 20)
    for sequence in sequences[1:]:
        ledger.settle(sequence, OK, sequence, 2_000)
    assert [path.stem for path in part_files(folder.path / "ledger")] == ["ledger-p1-000001"]
    ledger.settle(0, OK, 0, 3_000)
    assert [path.stem for path in part_files(folder.path / "ledger")] == [
        "ledger-p1-000000",
        "ledger-p1-000001",
    ]
    ledger.settle(0, FAILED, -1, 4_000)  # twice, and too late: changes nothing
    ledger.close()
    assert [row["sequence"] for row in rows_of(folder.path, LEDGER)] == sequences
    assert {row["outcome"] for row in rows_of(folder.path, LEDGER)} == {"ok"}
    assert slot_files(folder.journal) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from tidelog.evidence.journals.clients import OK, LedgerJournal
ledger = LedgerJournal(Path(sys.argv[1]), lambda slots: None, producer="p1", zone="az1", topic="t", acks=1,
                       idempotent=False, retries=0, rows=1024)
for number in range(1500):
    ledger.intend(0, b"", b"p1-%d" % number, size=9, crc=7, now_us=number)
    if number % 3 == 0:
        ledger.settle(number, OK, number, number)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_producer_leaves_every_intent(folder: EvidenceFolder):
    """Nothing was flushed, nothing is missing: what was settled is ok, the rest is unknown."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, folder.journal], check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == -signal.SIGKILL
    assert len(slot_files(folder.journal)) == 2
    assert seal_journals(folder).trouble == {}
    rows = list(rows_of(folder.path, LEDGER))
    assert [row["sequence"] for row in rows] == list(range(1500))
    assert all((row["outcome"] == "ok") == (row["sequence"] % 3 == 0) for row in rows)


def test_recovering_twice_is_recovering_once(folder: EvidenceFolder):
    """Also if the first time ended between writing the table and removing the journal."""
    ledger = LedgerJournal(folder.journal, lambda slots: slots.release(), **PRODUCER, rows=8)
    intend(ledger, 3)
    path = slot_files(folder.journal)[0]
    before = path.read_bytes()
    del ledger
    assert seal_journals(folder).journals == 1
    folder.journal.mkdir(exist_ok=True)
    path.write_bytes(before)
    assert seal_journals(folder).journals == 1
    assert [row["sequence"] for row in rows_of(folder.path, LEDGER)] == [0, 1, 2]


# ---------------------------------------------------------------- reads


def test_a_read_becomes_a_row(folder: EvidenceFolder, seal_now: Callable[[Slots], None]):
    """With what is known of it; -1 is not known. Files follow one another as they fill."""
    reads = ReadsJournal(folder.journal, seal_now, consumer="c1", topics=["a", "b"], rows=8, zone="az2")
    reads.polled(5_000)
    reads.record(
        1, 2, 7, epoch=3, timestamp_ms=99, key=b"k", value=b"p1-4 .....", position=6, high_watermark=9
    )
    reads.record(0, 0, 0, epoch=-1, timestamp_ms=-1, key=None, value=None, position=-1, high_watermark=-1)
    reads.polled(6_000)
    for offset in range(1, 20):
        reads.record(
            0, 0, offset, epoch=0, timestamp_ms=0, key=None, value=b"", position=offset, high_watermark=0
        )
    assert len(part_files(folder.path / "reads")) == 2
    reads.close()
    rows = list(rows_of(folder.path, READS))
    assert rows[0] == {
        "consumer": "c1",
        "zone": "az2",
        "topic": "b",
        "partition": 2,
        "offset": 7,
        "leader_epoch": 3,
        "key": "k",
        "value": "p1-4",
        "value_bytes": 10,
        "value_crc32": crc32(b"p1-4 ....."),
        "timestamp_ms": 99,
        "read_us": 5_000,
        "poll": 0,
        "position_before": 6,
        "position_after": 8,
        "high_watermark": 9,
    }
    assert rows[1] == {
        "consumer": "c1",
        "zone": "az2",
        "topic": "a",
        "partition": 0,
        "offset": 0,
        "read_us": 5_000,
        "poll": 0,
        "position_after": 1,
    }
    assert [row["offset"] for row in rows[1:]] == list(range(20))
    assert {row["poll"] for row in rows[2:]} == {1}
    assert rows[2]["value_bytes"] == 0


@pytest.mark.parametrize(
    ("found", "kept"), [(b"p1-4", b"p1-4"), (b"\xff\x00a", b"??a"), ("é".encode(), b"??"), (b"", b"")]
)
def test_what_strangers_write_is_kept_as_plain_text(found: bytes, kept: bytes):
    assert plain(found) == kept


def test_the_value_of_a_stranger_is_known_by_its_beginning(
    folder: EvidenceFolder, seal_now: Callable[[Slots], None]
):
    """Its size and checksum are of all of it."""
    value = b"x" * 1000
    reads = ReadsJournal(folder.journal, seal_now, consumer="c1", topics=["a"], rows=8)
    reads.polled(1)
    reads.record(0, 0, 0, epoch=0, timestamp_ms=0, key=b"y" * 99, value=value, position=0, high_watermark=1)
    reads.close()
    (row,) = rows_of(folder.path, READS)
    assert (row["value"], row["key"]) == ("x" * 32, "y" * 16)
    assert (row["value_bytes"], row["value_crc32"]) == (1000, crc32(value))


# ---------------------------------------------------------------- files


def test_a_journal_that_is_being_written_is_left_alone(folder: EvidenceFolder):
    ledger = LedgerJournal(folder.journal, lambda slots: None, **PRODUCER, rows=8)
    intend(ledger)
    (path,) = slot_files(folder.journal)
    with pytest.raises(StillWritten, match="still runs"):
        Slots.open(path)
    done = seal_journals(folder)
    assert list(done.trouble) == [f"journal/{path.name}"]
    assert folder.manifest.missing == [
        {"what": f"the rows of journal/{path.name}", "why": done.trouble[f"journal/{path.name}"]}
    ]
    ledger.close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a journal of a trial"),
        (b"nonsense" * 1000, "is not a journal of a trial"),
        (b'{"version": 9}' + bytes(5000), "was written by another version of tidelog (format 9)"),
        (
            b'{"version": 1, "table": "ledger", "capacity": 8, "columns": [["sequence", "q", "never"]], '
            b'"constants": {}}',
            "has not the size that its first bytes promise",
        ),
    ],
)
def test_a_damaged_journal_is_named_and_kept(folder: EvidenceFolder, content: bytes, message: str):
    path = folder.journal / "ledger-p9-000000.slots"
    path.write_bytes(content)
    with pytest.raises(CorruptSlots) as refused:
        Slots.open(path)
    assert message in str(refused.value)
    assert len(seal_journals(folder).trouble) == 1
    assert path.exists()


def test_a_full_disk_is_an_error_at_once(folder: EvidenceFolder, monkeypatch: pytest.MonkeyPatch):
    """When the file is made; not a signal when it is filled."""

    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        LedgerJournal(folder.journal, lambda slots: None, **PRODUCER)
    assert [path.name for path in folder.journal.iterdir()] == ["events"]


def test_what_cannot_be_sealed_stays_a_journal(folder: EvidenceFolder):
    """And the caller gets the reason."""
    (folder.path / "ledger").write_text("in the way")
    heard: list[tuple[Path, Exception]] = []
    sealer = Sealer(folder.path, lambda path, error: heard.append((path, error)))
    ledger = LedgerJournal(folder.journal, sealer.seal, **PRODUCER, rows=8)
    intend(ledger)
    ledger.close()
    sealer.close()
    assert [path for path, _ in heard] == slot_files(folder.journal)


def test_lines_become_rows_of_the_table_they_are_named_after(folder: EvidenceFolder):
    """The two lines of a fault become one row; a torn last line says nothing."""
    faults = LineJournal(folder.journal / "faults.jsonl")
    faults.write({"number": 0, "kind": "kill", "targets": ["1"], "began_us": 5})
    faults.write({"number": 1, "kind": "pause", "targets": ["2"], "began_us": 6})
    faults.write({"number": 0, "ended_us": 9})
    faults.close()
    with (folder.journal / "faults.jsonl").open("ab") as torn:
        torn.write(b'{"number": 1, "ended')
    noticed = LineJournal(folder.journal / "client_events-w1.jsonl")
    noticed.write({"time_us": 1, "client": "p1", "event": "error"})
    noticed.close()
    (folder.events_journal / "events-1-5.jsonl").write_text(
        '{"time_ms": 1, "broker": 1, "process_start_ms": 5, "sequence": 0, "event": "process_stopped"}\n'
    )
    assert seal_journals(folder).trouble == {}
    assert list(rows_of(folder.path, FAULTS)) == [
        {"number": 0, "kind": "kill", "targets": ["1"], "began_us": 5, "ended_us": 9},
        {"number": 1, "kind": "pause", "targets": ["2"], "began_us": 6},
    ]
    assert list(rows_of(folder.path, CLIENT_EVENTS)) == [{"time_us": 1, "client": "p1", "event": "error"}]
    assert next(rows_of(folder.path, EVENTS))["event"] == "process_stopped"
    assert not folder.journal.exists()


# ---------------------------------------------------------------- the folder


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path):
    """One line says who uses it and what to do; nothing in it is touched."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(EvidenceError, match="is not empty: choose another folder"):
        EvidenceFolder.create(tmp_path / "mine", Manifest("cluster"))
    (tmp_path / "file").write_text("")
    with pytest.raises(EvidenceError, match="this is a file, not a folder"):
        EvidenceFolder.create(tmp_path / "file", Manifest("cluster"))
    folder = EvidenceFolder.create(tmp_path / "e", Manifest("cluster"))
    with pytest.raises(EvidenceError, match="tidelog evidence recover"):
        EvidenceFolder.create(tmp_path / "e", Manifest("cluster"))
    with pytest.raises(EvidenceError, match="a trial writes to"):
        EvidenceFolder.claim(tmp_path / "e")
    folder.manifest.state = COMPLETE
    folder.write_manifest()
    folder.release()
    with pytest.raises(EvidenceError, match="holds complete evidence"):
        EvidenceFolder.create(tmp_path / "e", Manifest("cluster"))


def test_a_folder_that_somebody_left_can_be_claimed(folder: EvidenceFolder):
    folder.manifest.seed = 7
    folder.write_manifest()
    folder.release()
    claimed = EvidenceFolder.claim(folder.path)
    assert (claimed.manifest.state, claimed.manifest.seed) == (RUNNING, 7)
    claimed.release()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "is not a folder of evidence: it has no trial.json"),
        ("{", "is invalid"),
        ('{"schema_version": 99}', "evidence of schema 99, this version reads 1 and 2"),
        ("[]", "is invalid"),
    ],
)
def test_what_is_no_evidence_is_refused(tmp_path: Path, text: str | None, message: str):
    if text is not None:
        (tmp_path / "trial.json").write_text(text)
    with pytest.raises(EvidenceError, match=message):
        EvidenceFolder.claim(tmp_path)


def test_a_folder_that_cannot_be_made_is_one_line():
    with pytest.raises(EvidenceError, match="/proc/nowhere: no such file or directory"):
        EvidenceFolder.create(Path("/proc/nowhere"), Manifest("cluster"))
