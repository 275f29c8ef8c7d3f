"""Reading event files: what a crash leaves is readable, what it cannot have left is named."""

import json
from pathlib import Path

import pytest

from tidelog.evidence.journals.event_files import CorruptEvidence, event_files, read_events

ROWS = [{"time_ms": 1, "broker": 0, "sequence": n, "event": "is_ä", "isr": [0, n]} for n in range(3)]
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events-0-1.jsonl"


def test_a_file_cut_anywhere_gives_its_whole_rows(path: Path) -> None:
    """Wherever a write was torn, the rows before it are read and the torn one is not made up."""
    for cut in range(len(LINES) + 1):
        path.write_bytes(LINES[:cut])
        # A row without its line end is whole nevertheless: no beginning of an object is an object.
        assert list(read_events(path)) == ROWS[: (LINES[:cut] + b"\n").count(b"}\n")]


def test_a_tail_of_zeros_is_a_torn_one(path: Path) -> None:
    """After a power cut a file may be longer than what reached the disk."""
    path.write_bytes(LINES + bytes(100))
    assert list(read_events(path)) == ROWS


@pytest.mark.parametrize(
    "damage", [b'{"time_ms":\n', b"\xff\xfe\n", b"[1]\n", b'"text"\n', b"{}\n", b"\n", bytes(20) + b"\n"]
)
@pytest.mark.parametrize("line", [1, 2, 4])
def test_damage_is_named_by_file_and_line(path: Path, damage: bytes, line: int) -> None:
    """A line that is whole and no event is not skipped: an audit would not notice the hole."""
    lines = LINES.splitlines(keepends=True)
    lines.insert(line - 1, damage)
    path.write_bytes(b"".join(lines))
    rows = read_events(path)
    assert [next(rows) for _ in range(line - 1)] == ROWS[: line - 1]
    with pytest.raises(CorruptEvidence, match=rf"^{path}: line {line} is not an event: [^\n]+$"):
        next(rows)


def test_rows_of_a_later_version_are_read(path: Path) -> None:
    """Kinds and columns that are not known here are the reader's caller's to judge."""
    path.write_text('{"event":"teleported","where":"elsewhere"}\n')
    assert list(read_events(path)) == [{"event": "teleported", "where": "elsewhere"}]


def test_files_are_listed_in_the_order_they_were_written(tmp_path: Path) -> None:
    """By broker, then by the process's start, then by part; as numbers, not as text."""
    names = [
        "events-0-9.jsonl",
        "events-0-10.jsonl",
        "events-0-10.2.jsonl",
        "events-0-10.10.jsonl",
        "events-2-3.jsonl",
        "events-10-1.jsonl",
    ]
    for name in [*reversed(names), "events-x-1.jsonl", "events-0-9.jsonl.tmp", "ledger-0-9.jsonl"]:
        (tmp_path / name).touch()
    assert [file.path.name for file in event_files(tmp_path)] == names
    assert [file.part for file in event_files(tmp_path, broker=0)] == [0, 0, 2, 10]
