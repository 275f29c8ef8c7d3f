"""Reads event files back, row by row.

A process that is killed may leave half a line at the end of its file; that half says nothing and is passed
over. Damage anywhere else is not something a crash does: it is reported by file and line, and not skipped,
because an audit must not rest on evidence with unnoticed holes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tidelog.evidence.event_schema import Row


class CorruptEvidence(Exception):
    """A line that is no event. The message is one line that says where and why."""

    def __init__(self, path: Path, line: int, why: str) -> None:
        super().__init__(f"{path}: line {line} is not an event: {why}")
        self.path = path
        self.line = line


def read_events(path: Path) -> Iterator[Row]:
    """The rows of one file, in the order they were written."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line)
            except ValueError as error:  # not JSON, or not even UTF-8
                if not line.endswith(b"\n"):
                    return
                raise CorruptEvidence(path, number, str(error)) from None
            if not isinstance(row, dict) or "event" not in row:
                raise CorruptEvidence(path, number, 'no object with an "event"')
            yield row
