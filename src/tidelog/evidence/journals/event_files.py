"""Files of a broker's events: their names, their retention, and reading them.

Broker 3 writes ``events-3-1731715200000.jsonl`` if it started at that time (ms since 1970). When a file is
full the same process continues in ``events-3-1731715200000.1.jsonl``, then ``.2`` and so on; the next process
starts with a new name. So a file never has two writers, and only its last line can be incomplete.

A killed process may leave half a line at the end of its file, which is skipped. Other damage is not caused by
a crash: it is reported with file and line, because an audit must not use incomplete evidence unnoticed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tidelog.evidence.event_schema import Row

_NAME = re.compile(r"events-(\d+)-(\d+)(?:\.(\d+))?\.jsonl")


class EventFile(NamedTuple):
    """An event file, parsed from its name. Sorted, the files of one broker are in the order they were
    written."""

    broker: int
    process_start_ms: int
    part: int
    path: Path


def event_path(directory: Path, broker: int, process_start_ms: int, part: int) -> Path:
    suffix = f".{part}" if part else ""
    return directory / f"events-{broker}-{process_start_ms}{suffix}.jsonl"


def event_files(directory: Path, broker: int | None = None) -> list[EventFile]:
    """The event files of one broker or of all, oldest first. Other files in the directory are ignored."""
    found = []
    for name in os.listdir(directory):
        match = _NAME.fullmatch(name)
        if match and (broker is None or int(match[1]) == broker):
            found.append(EventFile(int(match[1]), int(match[2]), int(match[3] or 0), directory / name))
    return sorted(found)


def create_file(path: Path) -> int:
    """A file descriptor to append to. Raises FileExistsError for the file of another process."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)


def delete_oldest(directory: Path, broker: int, bytes_max: int) -> None:
    """Delete this broker's oldest files beyond the limit; the newest file always stays."""
    total = 0
    for number, file in enumerate(reversed(event_files(directory, broker))):
        try:
            total += file.path.stat().st_size
            if number and total > bytes_max:
                file.path.unlink()
        except FileNotFoundError:
            continue  # removed by another process at the same time


class CorruptEvidence(Exception):
    """A line is not an event. The message names file, line and reason."""

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
