"""Rows are what readers yield: dictionaries that can be printed as JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidelog.errors import reason

Row = dict[str, Any]
Rows = Iterator[Row]

FINDING = "finding"
NOTE = "note"


def finding(path: Path, problem: str, position: int | None = None) -> Row:
    """An error in the files: it makes the exit code 1."""
    return {"kind": FINDING, "file": str(path), "position": position, "problem": problem}


def note(path: Path, text: str) -> Row:
    """Something unusual that is not an error."""
    return {"kind": NOTE, "file": str(path), "text": text}


def gone(path: Path) -> Row:
    """A file that vanished while it was read: a running broker removes files for retention and
    DeleteTopics."""
    return note(path, "removed while it was read: a broker runs here")


def bytes_field(name: str, value: bytes | None) -> Row:
    """As text if it is UTF-8, else in base64 under another name, so that no byte is lost."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode("ascii")}


def unreadable(path: Path, error: OSError) -> Row:
    if isinstance(error, FileNotFoundError):
        return gone(path)
    return finding(path, reason(error))
