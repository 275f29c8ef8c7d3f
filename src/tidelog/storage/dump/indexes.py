"""`.index` and `.timeindex`: the sparse indexes of a segment, compared with the segment if it exists.

Kafka preallocates the index files of the active segment, so zeros at the end are not entries. An entry of an
offset index must point at a batch whose first offset is not beyond the entry's: readers start there and walk
on. (Kafka writes one entry for all batches of an append, so the batch may end before it.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO

from tidelog.storage.dump.rows import Row, Rows, finding, unreadable
from tidelog.storage.dump.segments import base_offset_of
from tidelog.storage.log.segment import LOG_SUFFIX

TRANSACTION_INDEX_SUFFIX = ".txnindex"

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TRANSACTION_ENTRY = Struct(">hqqqq")
_BATCH_START = Struct(">q8xb")
_CHUNK_ENTRIES = 4096
_PADDING = (0, 0)
"""Only the very first real entry can be all zeros, and it carries no information."""


def index_rows(path: Path) -> Rows:
    base = base_offset_of(path)
    if base is None:
        yield finding(path, "the name of an index is the 20 digits of an offset")
        return
    before = _PADDING
    log = _Log(path.with_suffix(LOG_SUFFIX))
    try:
        for slot, relative, position in _entries(path, _OFFSET_ENTRY):
            if (relative, position) == _PADDING:
                continue
            offset = base + relative
            yield {
                "kind": "index entry",
                "file": str(path),
                "slot": slot,
                "offset": offset,
                "position": position,
            }
            if relative < before[0] or position <= before[1]:
                yield finding(
                    path, f"entry {slot} does not come after entry {slot - 1}", slot * _OFFSET_ENTRY.size
                )
            elif (problem := log.problem(base, offset, position)) is not None:
                yield finding(path, f"entry {slot}: {problem}", slot * _OFFSET_ENTRY.size)
            before = (relative, position)
        yield from _remainder(path, _OFFSET_ENTRY.size)
    except OSError as error:
        yield unreadable(path, error)
    finally:
        log.close()


def time_index_rows(path: Path) -> Rows:
    base = base_offset_of(path)
    if base is None:
        yield finding(path, "the name of an index is the 20 digits of an offset")
        return
    before = (-2, -1)
    try:
        for slot, timestamp, relative in _entries(path, _TIME_ENTRY):
            if (timestamp, relative) == _PADDING:
                continue
            row = {"kind": "time index entry", "file": str(path), "slot": slot, "timestamp": timestamp}
            yield {**row, "offset": base + relative}
            if timestamp <= before[0] or relative < before[1]:
                yield finding(
                    path, f"entry {slot} does not come after entry {slot - 1}", slot * _TIME_ENTRY.size
                )
            before = (timestamp, relative)
        yield from _remainder(path, _TIME_ENTRY.size)
    except OSError as error:
        yield unreadable(path, error)


def transaction_index_rows(path: Path) -> Rows:
    try:
        for slot, version, producer, first, last, stable in _entries(path, _TRANSACTION_ENTRY):
            if version != 0:
                yield finding(path, f"entry {slot} has version {version}", slot * _TRANSACTION_ENTRY.size)
                return
            yield {
                "kind": "aborted transaction",
                "file": str(path),
                "producer_id": producer,
                "first_offset": first,
                "last_offset": last,
                "last_stable_offset": stable,
            }
        yield from _remainder(path, _TRANSACTION_ENTRY.size)
    except OSError as error:
        yield unreadable(path, error)


def _entries(path: Path, entry: Struct) -> Iterator[tuple[int, ...]]:
    """The entries with their numbers."""
    slot = 0
    with open(path, "rb") as file:
        while data := file.read(entry.size * _CHUNK_ENTRIES):
            if not any(data):  # preallocated: megabytes of zeros
                slot += len(data) // entry.size
                continue
            whole = len(data) - len(data) % entry.size
            for fields in entry.iter_unpack(data[:whole]):
                yield (slot, *fields)
                slot += 1


def _remainder(path: Path, entry_size: int) -> Iterator[Row]:
    size = os.stat(path).st_size
    if rest := size % entry_size:
        yield finding(path, f"{rest} bytes at the end are no entry of {entry_size} bytes", size - rest)


class _Log:
    """The segment of an index, if it exists."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO | None = None
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115
        except OSError:
            return

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def problem(self, base: int, offset: int, position: int) -> str | None:
        if self._file is None:
            return None
        self._file.seek(max(position, 0))
        head = self._file.read(_BATCH_START.size)
        if position < 0 or len(head) < _BATCH_START.size:
            return f"there is no batch at {position} of the log"
        found, magic = _BATCH_START.unpack(head)
        if magic not in (0, 1, 2) or not base <= found <= offset:
            return f"at {position} of the log there is no batch that leads to offset {offset}"
        return None
