"""Sends on disk: what survives a kill, what a full disk does, how files follow each other."""

from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import Refusal
from tidelog.evidence.folder import Manifest
from tidelog.evidence.journals.clients import FAILED, OK, UNKNOWN
from tidelog.evidence.journals.slots import Ending, Slots, slot_files
from tidelog.evidence.parquet.sealing import content_names, to_arrow
from tidelog.ledger.identity import content_name, origin_of, pack_header, record_name
from tidelog.ledger.sampling import chosen, threshold
from tidelog.ledger.sends import LedgerError, SendRecorder


def recorder(folder: Path, **more: Any) -> SendRecorder:
    settings: dict[str, Any] = {
        "name": "app",
        "header": False,
        "sample": 1.0,
        "strict": False,
        "rows": 16,
        "seconds": 3600.0,
    }
    return SendRecorder(folder, **(settings | {"acks": -1, "idempotent": True} | more))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """All rows of the journals, by stream and number."""
    found: list[dict[str, Any]] = []
    for path in slot_files(folder / "journal"):
        found += to_arrow(Slots.watch(path)).to_pylist()
    return sorted(found, key=lambda row: (row["producer"], row["sequence"]))


def endings(folder: Path) -> list[Ending]:
    return [Slots.watch(path).ending for path in slot_files(folder / "journal")]


def test_intent_then_outcome(tmp_path: Path) -> None:
    """A send is on disk, unknown, before it is made; its outcome completes the row."""
    ledger = recorder(tmp_path / "l")
    entries = [ledger.intend("t", -1, b"k", b"v%d" % number) for number in range(4)]
    assert [row["outcome"] for row in rows_of(tmp_path / "l")] == ["unknown"] * 4
    outcomes = (OK, FAILED, UNKNOWN)
    for entry, outcome in zip(entries, outcomes, strict=False):
        assert entry is not None
        entry.settle(outcome, 3, 17 if outcome == OK else None, 0 if outcome == OK else 7, "SOME_ERROR")
        entry.settle(UNKNOWN, 0, None)  # a second outcome changes nothing
    rows = rows_of(tmp_path / "l")
    assert [row["outcome"] for row in rows] == ["ok", "failed", "unknown", "unknown"]
    assert [row["partition"] for row in rows] == [3, 3, 3, None]
    assert [row["offset"] for row in rows] == [17, None, None, None]
    assert [row["settled_us"] is None for row in rows] == [False, False, False, True]
    assert rows[1]["error_code"] == 7
    assert rows[0]["value"] == record_name(None, b"v0")
    assert rows[0]["key"] == "k"
    assert rows[0]["idempotent"] is True
    assert Manifest.read(tmp_path / "l").kept


def test_files_follow_each_other(tmp_path: Path) -> None:
    """By size and by time, one series for each topic; a restarted process continues in the same folder."""
    ledger = recorder(tmp_path / "l")
    for number in range(40):
        assert ledger.intend("t", 0, None, b"%d" % number)
    ledger.intend("u", 0, None, b"x")
    assert endings(tmp_path / "l").count(Ending.FINISHED) == 2
    ledger.close()
    assert set(endings(tmp_path / "l")) == {Ending.FINISHED}
    hurried = recorder(tmp_path / "l", seconds=1e-6)
    for _ in range(3):
        hurried.intend("t", 0, None, b"y")
    rows = rows_of(tmp_path / "l")
    assert len(slot_files(tmp_path / "l" / "journal")) == 4 + 3
    streams: dict[str, list[int]] = {}
    for row in rows:
        streams.setdefault(row["producer"], []).append(row["sequence"])
    assert sorted(streams.values(), key=len) == [[0], [0, 1, 2], list(range(40))]


_APPLICATION = """
import sys
from pathlib import Path
from tests.ledger.test_sends import recorder

ledger = recorder(Path(sys.argv[1]), header=True, rows=64)
number = 0
while True:
    ledger.intend("t", 0, b"key", b"%d" % number)
    print(number, flush=True)  # from now on the library might have sent it
    number += 1
"""


def test_a_kill_loses_no_intent(tmp_path: Path) -> None:
    """Whatever `intend` returned for is on disk after kill -9."""
    process = subprocess.Popen(
        [sys.executable, "-c", _APPLICATION, str(tmp_path / "l")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    said = [int(process.stdout.readline()) for _ in range(300)]
    os.kill(process.pid, signal.SIGKILL)
    said += [int(line) for line in process.stdout.read().splitlines()]
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    rows = rows_of(tmp_path / "l")
    assert said == list(range(len(said)))
    assert [row["sequence"] for row in rows] == list(range(len(rows)))
    assert len(rows) in (len(said), len(said) + 1)  # killed between the intent and the line
    assert endings(tmp_path / "l")[-1] is Ending.OPEN
    for path in slot_files(tmp_path / "l" / "journal"):
        Slots.open(path).release()  # no process holds it any more


@pytest.fixture
def tiny_disk() -> Iterator[None]:
    """No file may become larger than this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("tiny_disk")
def test_no_space_for_the_next_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Recording stops with one warning, the application goes on, and the ledger says that it stopped."""
    ledger = recorder(tmp_path / "l", rows=96)
    entries = [ledger.intend("t", 0, None, b"x") for _ in range(96)]
    assert all(entries)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    with caplog.at_level(logging.WARNING, "tidelog.ledger"):
        assert [ledger.intend("t", 0, None, b"y") for _ in range(3)] == [None] * 3
    assert len(caplog.records) == 1
    assert entries[0] is not None
    entries[0].settle(OK, 0, 5)  # what was recorded is settled all the same
    assert endings(tmp_path / "l") == [Ending.STOPPED]
    assert len(rows_of(tmp_path / "l")) == 96
    assert rows_of(tmp_path / "l")[0]["outcome"] == "ok"


def test_a_folder_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, "tidelog.ledger"):
        ledger = recorder(tmp_path / "file" / "l")
    assert "recording of sends has stopped, the application goes on" in caplog.text
    assert ledger.intend("t", 0, None, b"x") is None
    with pytest.raises(LedgerError, match="not a directory"):
        recorder(tmp_path / "file" / "l", strict=True)
    (tmp_path / "trial").mkdir()
    Manifest("sim").write(tmp_path / "trial")
    with pytest.raises(Refusal, match="holds the evidence of a trial"):
        recorder(tmp_path / "trial")


def test_transactions(tmp_path: Path) -> None:
    """Sends of a transaction have its outcome, whatever was delivered."""
    ledger = recorder(tmp_path / "l")

    def one(value: bytes) -> None:
        entry = ledger.intend("t", 0, None, value)
        assert entry is not None
        entry.settle(OK, 0, 1)

    for outcome in (OK, FAILED, UNKNOWN):
        ledger.begin()
        one(b"a")
        one(b"b")
        assert rows_of(tmp_path / "l")[-1]["outcome"] == "unknown"
        ledger.end(outcome)
    ledger.begin()
    one(b"never ended")
    rows = rows_of(tmp_path / "l")
    assert [row["outcome"] for row in rows] == ["ok"] * 2 + ["failed"] * 2 + ["unknown"] * 3
    assert len({row["transaction"] for row in rows}) == 4


def test_a_sample_is_the_same_everywhere(tmp_path: Path) -> None:
    limit = threshold(0.25)
    assert limit is not None
    keys = [b"key-%d" % number for number in range(4000)]
    inside = [key for key in keys if chosen(limit, key, b"ignored")]
    assert 900 < len(inside) < 1100
    ledger = recorder(tmp_path / "l", sample=0.25, rows=4096)
    assert [key for key in keys if ledger.intend("t", 0, key, b"other") is not None] == inside
    assert threshold(1.0) is None
    with pytest.raises(Refusal, match="above 0 and up to 1"):
        threshold(0.0)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=40))
def test_the_header(stream: int, sequence: int, value: bytes) -> None:
    """20 bytes, found among other headers; without it a record is named by its content."""
    packed = pack_header(stream, sequence, crc32c(value))
    assert len(packed) == 20
    headers = [("a", b"b"), ("tidelog", packed)]
    assert origin_of(headers) == (stream, sequence, crc32c(value))
    assert record_name(headers, value) == f"{stream:016x}-{sequence}"
    assert record_name(headers, value + b"changed") == f"{stream:016x}-{sequence}!"
    assert record_name([("tidelog", b"other")], value) == content_name(len(value), crc32c(value))


@given(st.lists(st.binary(max_size=30), min_size=1))
def test_names_by_content(values: list[bytes]) -> None:
    """Many at once are named as one by one."""
    found = content_names(pa.array(map(len, values)), pa.array(map(crc32c, values)))
    assert found.to_pylist() == [record_name(None, value) for value in values]
