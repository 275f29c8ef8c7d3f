"""Rows: what readers yield. A row is a dictionary, so that it is its own JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Rows = Iterator[Row]

FINDING = "finding"
NOTE = "note"


def finding(path: Path, problem: str, position: int | None = None) -> Row:
    """Something that should not be: it makes the exit code 1."""
    return {"kind": FINDING, "file": str(path), "position": position, "problem": problem}


def note(path: Path, text: str) -> Row:
    """Something worth knowing that is not wrong."""
    return {"kind": NOTE, "file": str(path), "text": text}


def gone(path: Path) -> Row:
    """What was there a moment ago: retention and DeleteTopics of a broker that runs remove files."""
    return note(path, "removed while it was read: a broker runs here")


def unreadable(path: Path, error: OSError) -> Row:
    if isinstance(error, FileNotFoundError):
        return gone(path)
    return finding(path, (error.strerror or str(error)).lower())
