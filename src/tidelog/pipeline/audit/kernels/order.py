"""Order: of each producer and partition the acknowledged sends, in the order of their numbers, by where they
stand. Files without an inversion, and without a send that stands elsewhere than it was told, are done in
round one; the others are looked at here, once it is known where their sends stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, Finding, FindingWriter, Tally
from tidelog.pipeline.audit.kernels.hashes import Ints
from tidelog.pipeline.audit.kernels.ledger_piece import COLUMNS, OK, UNKNOWN, Sends, order_of, sends_of
from tidelog.pipeline.audit.kernels.tables import read_piece
from tidelog.pipeline.audit.pieces import TablePiece


@dataclass(slots=True, frozen=True)
class OrderPiece:
    """Files of the ledger whose numbers lie between each other, mostly one; and where sends of them stand."""

    number: int
    pieces: tuple[TablePiece, ...]
    row: Ints
    stands: Ints
    bytes: int


@dataclass(slots=True)
class OrderResult:
    edges: tuple[Any, ...] = ()
    tally: Tally = field(default_factory=Tally)


def judge_order(context: Context, work: OrderPiece) -> OrderResult:
    columns = (*COLUMNS, "leader_epoch", "transaction")
    table = pa.concat_tables([read_piece(context.place, piece, columns) for piece in work.pieces])
    sends = sends_of(context, table.unify_dictionaries())
    numbers = np.concatenate([(piece.number << 32) | np.arange(piece.rows) for piece in work.pieces])
    stands = np.where(sends.told, sends.offset, -1)
    at = np.searchsorted(numbers, work.row)
    stands[at] = work.stands
    line = np.flatnonzero(sends.known & (sends.outcome == OK) & (stands >= 0))
    writer = FindingWriter(context, f"order-{work.number:06}")
    writer.add_all(_late(sends, line, stands))
    writer.add_all(_late_in_doubt(sends, line, stands))
    _, edges = order_of(sends, (line, stands[line]), work.pieces[0].number)
    return OrderResult(edges, writer.close())


def _sorted(sends: Sends, rows: Ints) -> tuple[Ints, Ints]:
    lane = (sends.part[rows] << 32) | sends.producer[rows]
    order = np.lexsort((sends.sequence[rows], lane))
    return rows[order], lane[order]


def _late(sends: Sends, line: Ints, stands: Ints) -> Iterator[Finding]:
    rows, lane = _sorted(sends, line)
    offset = stands[rows]
    for at in (np.flatnonzero((lane[1:] == lane[:-1]) & (offset[1:] < offset[:-1])) + 1).tolist():
        before, row = int(rows[at - 1]), int(rows[at])
        yield overtaken(
            sends,
            row,
            int(offset[at]),
            (int(sends.sequence[before]), int(offset[at - 1]), int(sends.settled[before])),
        )


def _late_in_doubt(sends: Sends, line: Ints, stands: Ints) -> Iterator[Finding]:
    """Sends of idempotent producers of which nobody heard, that stand before an earlier acknowledged one."""
    doubtful = np.flatnonzero(sends.known & sends.idempotent & (sends.outcome == UNKNOWN) & (stands >= 0))
    if not len(doubtful) or not len(line):
        return
    rows, lane = _sorted(sends, line)
    for row in doubtful.tolist():
        mine = (int(sends.part[row]) << 32) | int(sends.producer[row])
        first, last = np.searchsorted(lane, mine), np.searchsorted(lane, mine, "right")
        at = first + int(np.searchsorted(sends.sequence[rows[first:last]], sends.sequence[row])) - 1
        if at >= first and stands[rows[at]] > stands[row]:
            before = int(rows[at])
            told = (int(sends.sequence[before]), int(stands[before]), int(sends.settled[before]))
            yield overtaken(sends, row, int(stands[row]), told)


def overtaken(sends: Sends, row: int, offset: int, before: tuple[int, int, int]) -> Finding:
    """`before` is the send before it: its number, its offset, and when it was settled."""
    sequence, stands, settled = before
    one_by_one = 0 <= settled <= int(sends.sent[row])
    epoch = sends.table["leader_epoch"][row].as_py() if "leader_epoch" in sends.table.column_names else None
    return Finding(
        "reordered",
        VIOLATION if bool(sends.idempotent[row]) or one_by_one else NOTICE,
        int(sends.part[row]),
        offset,
        epoch,
        sends.table["value"][row].as_py(),
        sends.producers[int(sends.producer[row])],
        int(sends.sequence[row]),
        int(sends.acks[row]),
        time_us=int(sends.sent[row]),
        until_us=None if sends.settled[row] < 0 else int(sends.settled[row]),
        detail=f"sent after number {sequence}, which stands at offset {stands}"
        + (" and had been acknowledged before" if one_by_one else ""),
    )


def between_files(
    context: Context, piece: TablePiece, row: int, offset: int, before: tuple[int, int, int]
) -> Finding:
    """The first of a file that stands before the last of the one before it."""
    table = read_piece(context.place, piece, (*COLUMNS, "leader_epoch", "transaction"))
    return overtaken(sends_of(context, table), row, offset, before)
