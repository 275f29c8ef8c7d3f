"""Order: of each producer and partition the acknowledged sends, in the order of their numbers, by their
offsets. Files without an inversion, and without a send that is elsewhere than it was acknowledged, are done
in round one; the others are looked at here, once the offsets of their sends are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.narrate.phrasebook import Phrase
from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, Facts, Finding, FindingWriter, Tally
from tidelog.pipeline.audit.kernels.hashes import Ints
from tidelog.pipeline.audit.kernels.ledger_piece import COLUMNS, OK, UNKNOWN, Sends, order_of, sends_of
from tidelog.pipeline.audit.kernels.tables import read_piece
from tidelog.pipeline.audit.pieces import TablePiece


@dataclass(slots=True, frozen=True)
class OrderPiece:
    """Files of the ledger whose numbers lie between each other, mostly one; and the offsets of some sends."""

    number: int
    pieces: tuple[TablePiece, ...]
    row: Ints
    real_offset: Ints
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
    real_offset = np.where(sends.placed, sends.offset, -1)
    at = np.searchsorted(numbers, work.row)
    real_offset[at] = work.real_offset
    line = np.flatnonzero(sends.known & (sends.outcome == OK) & (real_offset >= 0))
    writer = FindingWriter(context, f"order-{work.number:06}")
    writer.add_all(_late(sends, line, real_offset))
    writer.add_all(_late_in_doubt(sends, line, real_offset))
    _, edges = order_of(sends, (line, real_offset[line]), work.pieces[0].number)
    return OrderResult(edges, writer.close())


def _sorted(sends: Sends, rows: Ints) -> tuple[Ints, Ints]:
    lane = (sends.part[rows] << 32) | sends.producer[rows]
    order = np.lexsort((sends.sequence[rows], lane))
    return rows[order], lane[order]


def _late(sends: Sends, line: Ints, real_offset: Ints) -> Iterator[Finding]:
    rows, lane = _sorted(sends, line)
    offset = real_offset[rows]
    for at in (np.flatnonzero((lane[1:] == lane[:-1]) & (offset[1:] < offset[:-1])) + 1).tolist():
        before, row = int(rows[at - 1]), int(rows[at])
        yield overtaken(
            sends,
            row,
            int(offset[at]),
            (int(sends.sequence[before]), int(offset[at - 1]), int(sends.settled[before])),
        )


def _late_in_doubt(sends: Sends, line: Ints, real_offset: Ints) -> Iterator[Finding]:
    """Sends of idempotent producers without an answer that are before an earlier acknowledged one."""
    doubtful = np.flatnonzero(
        sends.known & sends.idempotent & (sends.outcome == UNKNOWN) & (real_offset >= 0)
    )
    if not len(doubtful) or not len(line):
        return
    rows, lane = _sorted(sends, line)
    for row in doubtful.tolist():
        mine = (int(sends.part[row]) << 32) | int(sends.producer[row])
        first, last = np.searchsorted(lane, mine), np.searchsorted(lane, mine, "right")
        at = first + int(np.searchsorted(sends.sequence[rows[first:last]], sends.sequence[row])) - 1
        if at >= first and real_offset[rows[at]] > real_offset[row]:
            before = int(rows[at])
            told = (int(sends.sequence[before]), int(real_offset[before]), int(sends.settled[before]))
            yield overtaken(sends, row, int(real_offset[row]), told)


def overtaken(sends: Sends, row: int, offset: int, before: tuple[int, int, int]) -> Finding:
    """`before` is the send before it: its number, its offset, and when it was settled."""
    sequence, real_offset, settled = before
    told = int(sends.offset[row])
    one_by_one = 0 <= settled <= int(sends.sent[row])
    epoch = sends.table["leader_epoch"][row].as_py() if "leader_epoch" in sends.table.column_names else None
    return sends.finding(
        row,
        "reordered",
        VIOLATION if bool(sends.idempotent[row]) or one_by_one else NOTICE,
        offset,
        leader_epoch=epoch,
        detail=Phrase.of(
            "detail.overtaken_one_by_one" if one_by_one else "detail.overtaken",
            sequence=sequence,
            offset=real_offset,
        ),
        facts=Facts(position=real_offset, misplaced=told >= 0 and told != offset),
    )


def between_files(
    context: Context, piece: TablePiece, row: int, offset: int, before: tuple[int, int, int]
) -> Finding:
    """The first of a file that is before the last of the one before it."""
    table = read_piece(context.place, piece, (*COLUMNS, "leader_epoch", "transaction"))
    return overtaken(sends_of(context, table), row, offset, before)
