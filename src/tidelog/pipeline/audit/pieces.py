"""The work of round one in pieces: a range of offsets of one partition with the files of every replica that
hold it, a file of the ledger, a file of reads. Each is bounded in bytes, however large a partition is.

A partition is cut where the offset index of the log that counts knows a batch. Nothing that an index says is
believed: wherever a cut lies, kernels keep to the offsets of their piece.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from tidelog.evidence.tables import RECORDS
from tidelog.pipeline.audit.evidence import Evidence, TableFile
from tidelog.pipeline.audit.kernels.hashes import STRETCH
from tidelog.pipeline.audit.partitions import Part
from tidelog.pipeline.segments.index import index_of
from tidelog.pipeline.segments.rows import SegmentFile

PIECE_BYTES: Final = 64 << 20
BEHIND_ALL: Final = 1 << 39
"""Behind every offset; a stretch of it still fits the number of a stretch."""
EVERYWHERE: Final = range(BEHIND_ALL)
_ROWS_MAX: Final = 1 << 18
_RECORD_ROWS_MAX: Final = 1 << 20


@dataclass(slots=True, frozen=True)
class LogPiece:
    """Offsets of one partition, and the segment files of each replica that may hold them."""

    number: int
    part: int
    low: int
    high: int
    files: dict[int, tuple[tuple[int, str], ...]]
    bytes: int


@dataclass(slots=True, frozen=True)
class RecordsPiece:
    """Partitions whose records are rows of the table `records`."""

    number: int
    parts: frozenset[int]
    files: tuple[str, ...]
    bytes: int


@dataclass(slots=True, frozen=True)
class TablePiece:
    """Some row groups of a file of the ledger or of reads. The rows are numbered from `first`."""

    number: int
    table: str
    file: str
    groups: tuple[int, ...]
    first: int
    rows: int
    bytes: int
    transactional: bool


Piece = LogPiece | RecordsPiece | TablePiece


def log_pieces(evidence: Evidence, parts: Iterable[Part]) -> list[LogPiece | RecordsPiece]:
    """Of all partitions that have replicas."""
    with_logs = [part for part in parts if part.replicas]
    if evidence.tables[RECORDS.name]:
        return _records_pieces(evidence.tables[RECORDS.name], with_logs)
    found: list[LogPiece | RecordsPiece] = []
    for part in with_logs:
        found += _cut(evidence, part, len(found))
    return found


def _cut(evidence: Evidence, part: Part, number: int) -> list[LogPiece]:
    there = {
        broker: tuple((base, name) for base, name in replica.files if name in evidence.sizes)
        for broker, replica in part.replicas.items()
    }
    # A replica without any file cannot be compared; `gone` names its files.
    there = {broker: files for broker, files in there.items() if files}
    size = sum(evidence.sizes[name] for files in there.values() for _, name in files)
    if not size:
        return []
    leading = there.get(part.broker if part.broker is not None else -1) or max(there.values(), key=len)
    bounds = sorted({0, *_bounds(evidence, leading, max(1, len(there)))}) if size > PIECE_BYTES else [0]
    found: list[LogPiece] = []
    for low, high in zip(bounds, [*bounds[1:], BEHIND_ALL], strict=True):
        files = {}
        for broker, listed in there.items():
            behind = [base for base, _ in listed[1:]] + [BEHIND_ALL]
            files[broker] = tuple(
                file for file, end in zip(listed, behind, strict=True) if file[0] < high and end > low
            )
        found.append(LogPiece(number + len(found), part.number, low, high, files, size // len(bounds)))
    return found


def _bounds(evidence: Evidence, files: tuple[tuple[int, str], ...], replicas: int) -> list[int]:
    """First offsets of pieces: where a stretch begins, and the index knows a batch nearby."""
    target = PIECE_BYTES // replicas
    found: list[int] = []
    filled = 0
    for base, name in files:
        size = evidence.sizes[name]
        if filled + size > target and filled:
            found.append(base // STRETCH * STRETCH)
            filled = 0
        if size > 2 * target:
            lasts, positions = index_of(SegmentFile(evidence.place, name))
            for goal in range(target, size - target // 2, target):
                at = int(np.searchsorted(positions, goal))
                if at < len(lasts):
                    found.append(int(lasts[at]) // STRETCH * STRETCH)
            filled = target
        filled += size
    return found


def _records_pieces(files: list[TableFile], parts: list[Part]) -> list[LogPiece | RecordsPiece]:
    names = tuple(file.name for file in files)
    rows, size = sum(sum(file.rows) for file in files), sum(file.bytes for file in files)
    count = max(1, min(rows // _RECORD_ROWS_MAX, len(parts)))
    return [
        RecordsPiece(n, frozenset(part.number for part in parts[n::count]), names, size // count)
        for n in range(count)
    ]


def table_pieces(evidence: Evidence, table: str) -> list[TablePiece]:
    """Of the ledger or of reads."""
    found: list[TablePiece] = []
    for file in evidence.tables[table]:
        groups: list[int] = []
        first = rows = 0
        for group, count in enumerate(file.rows):
            if groups and rows + count > _ROWS_MAX:
                found.append(_table_piece(len(found), table, file, groups, first, rows))
                first, rows, groups = first + rows, 0, []
            groups.append(group)
            rows += count
        if rows:
            found.append(_table_piece(len(found), table, file, groups, first, rows))
    return found


def _table_piece(  # noqa: PLR0917
    number: int, table: str, file: TableFile, groups: list[int], first: int, rows: int
) -> TablePiece:
    share = file.bytes * rows // max(sum(file.rows), 1)
    return TablePiece(number, table, file.name, tuple(groups), first, rows, share, file.transactional)
