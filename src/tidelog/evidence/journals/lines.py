"""Small journals as JSON lines: faults, events of clients, and the sends of a test, a few rows per second.

Each line is passed to the operating system before `write` returns. The file's name begins with the name of
its table: `faults.jsonl`, `client_events-producers-1.jsonl`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidelog.evidence.event_schema import Row

SUFFIX: Final = ".jsonl"


class LineJournal:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, row: Row) -> None:
        os.write(self._fd, json.dumps(row, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_lines(path: Path) -> Iterator[Row]:
    """The rows of a journal, without an incomplete last line."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def line_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
