"""Transactions: which of those in doubt committed, and which depend on each other in a circle.

A transaction comes before another if it wrote right before it into a partition (ww), or if the other read
what it wrote (wr). One on a circle came before itself.

Rules of the file:

* Only transactions that committed: acknowledged, or in doubt and one of their values was seen somewhere.
* What transactions wrote and read comes to the driver as numbers; beyond `ROWS_MAX` of them cycles are not
  judged, and that is said. Where the ledger holds no transactions, nothing is looked at.
* Transactions stand on a line by the time when their outcome was known; edges against that order cover every
  cycle (`cycles.merged`). Only what lies in one island is looked at together.
* Reads alone are looked at by themselves, so that broken promises are found however many transactions
  interleave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.evidence.tables import LEDGER
from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.cycles import READS as READ_EDGE
from tidelog.pipeline.audit.cycles import WRITES, Edge, knots, merged
from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, Finding
from tidelog.pipeline.audit.kernels.hashes import Words, among, flags, ints, text_hashes
from tidelog.pipeline.audit.kernels.ledger_piece import COLUMNS, OK, UNKNOWN, sends_of, value_keys
from tidelog.pipeline.audit.kernels.log_piece import SUMMED, final_records, final_rows, simulated
from tidelog.pipeline.audit.kernels.reads_piece import COLUMNS as READ_COLUMNS
from tidelog.pipeline.audit.kernels.tables import read_piece
from tidelog.pipeline.audit.pieces import Piece, RecordsPiece, TablePiece

ROWS_MAX: Final = 5_000_000
EDGES_MAX: Final = 2_000_000
"""Of one island: about a GB of memory."""
_SHOWN_MAX: Final = 8


# ---------------------------------------------------------------- what became of them


@dataclass(slots=True, frozen=True)
class Doubts:
    context: Context
    values: Words


def doubtful(context: Context, piece: TablePiece) -> tuple[Words, list[str]]:
    """Values of transactions in doubt, and the names of these transactions."""
    table = read_piece(context.place, piece, (*COLUMNS, "transaction"))
    sends = sends_of(context, table)
    mine = (sends.outcome == UNKNOWN) & (sends.part >= 0) & (sends.value != 0)
    mine &= ~flags(table["transaction"].is_null())
    names = table["transaction"].filter(pa.array(mine)).cast(pa.string()).to_pylist()
    return value_keys(sends.part[mine], sends.value[mine]), names


def seen(doubts: Doubts, piece: Piece) -> Words:
    """Which of these values a piece of reads or of a log shows."""
    context = doubts.context
    if isinstance(piece, TablePiece):
        table = read_piece(context.place, piece, ("topic", "partition", "value"))
        part, value = context.numbers(table), text_hashes(table["value"])
    else:
        rows: Any
        if isinstance(piece, RecordsPiece):
            records, numbers, broker = simulated(context, piece)
            rows = None if records is None else final_records(context, records, numbers, broker)
        else:
            part_ = context.parts[piece.part]
            counts = part_.broker is not None and part_.broker in piece.files
            rows = final_rows(context, piece, SUMMED) if counts else None
        if rows is None:
            return np.zeros(0, np.uint64)
        rows = rows.filter(rows["visible"])
        part, value = ints(rows["part"]), text_hashes(rows["value_id"])
    keys = value_keys(part[value != 0], value[value != 0])
    return np.unique(keys[among(keys, doubts.values)])


# ---------------------------------------------------------------- what they did


@dataclass(slots=True)
class Steps:
    """What transactions sent, or read: columns of the same length."""

    transaction: list[str] = field(default_factory=list)
    part: list[int] = field(default_factory=list)
    value: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    at_us: list[int] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    told: list[bool] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    who: list[str] = field(default_factory=list)
    committed: list[bool] = field(default_factory=list)
    epoch: list[int | None] = field(default_factory=list)

    def extend(self, other: Steps) -> None:
        for name in self.__slots__:
            getattr(self, name).extend(getattr(other, name))

    def __len__(self) -> int:
        return len(self.transaction)


def steps_of(context: Context, piece: TablePiece) -> tuple[str, Steps]:
    """Those of a piece of the ledger or of reads."""
    found = Steps()
    if piece.table == LEDGER.name:
        table = read_piece(context.place, piece, (*COLUMNS, "transaction"))
        sends = sends_of(context, table)
        rows = np.flatnonzero(sends.known & ~flags(table["transaction"].is_null()))
        found.at_us = np.where(sends.settled < 0, sends.sent, sends.settled)[rows].tolist()
        found.told = sends.told[rows].tolist()
        found.committed = (sends.outcome[rows] == OK).tolist()
        found.who = [sends.producers[code] or "" for code in sends.producer[rows].tolist()]
        part, value, offset = sends.part, sends.value, sends.offset
    else:
        table = read_piece(context.place, piece, (*READ_COLUMNS, "transaction"))
        part, value, offset = context.numbers(table), text_hashes(table["value"]), ints(table["offset"])
        rows = np.flatnonzero((part >= 0) & (value != 0) & ~flags(table["transaction"].is_null()))
        found.at_us = ints(table["read_us"])[rows].tolist()
        found.told = [True] * len(rows)
        found.committed = [True] * len(rows)
        found.who = table["consumer"].take(pa.array(rows)).cast(pa.string()).to_pylist()
        found.epoch = table["leader_epoch"].take(pa.array(rows)).to_pylist()
    taken = pa.array(rows)
    found.transaction = table["transaction"].take(taken).cast(pa.string()).to_pylist()
    found.text = table["value"].take(taken).to_pylist()
    found.part, found.offset = part[rows].tolist(), offset[rows].tolist()
    found.value = value_keys(part[rows], value[rows]).tolist()
    found.row = ((piece.number << 32) | rows).tolist()
    found.epoch = found.epoch or [None] * len(rows)
    return piece.table, found


def its_own(sends: Steps, reads: Steps) -> Iterator[Finding]:
    """What a transaction read of itself: it had not committed yet."""
    sent = set(zip(sends.transaction, sends.value, strict=True))
    first: dict[tuple[int, str, str, str], int] = {}
    for index, key in enumerate(zip(reads.transaction, reads.value, strict=True)):
        if key in sent:
            place = (reads.part[index], reads.text[index], reads.transaction[index], reads.who[index])
            if place not in first or reads.at_us[index] < reads.at_us[first[place]]:
                first[place] = index
    for (part, value, transaction, consumer), index in sorted(first.items()):
        yield Finding(
            "precommitted read",
            VIOLATION,
            part,
            reads.offset[index],
            reads.epoch[index],
            value,
            consumer=consumer,
            time_us=reads.at_us[index],
            detail=f"{consumer} read it inside of {transaction}, which had sent it",
        )


# ---------------------------------------------------------------- in circles


@dataclass(slots=True, frozen=True)
class Dependency:
    kind: str
    part: int
    source: str
    source_offset: int
    target: str
    target_offset: int


def circles(
    context: Context, sends: Steps, reads: Steps, stands: dict[int, int], repeated: set[int]
) -> tuple[list[Finding], list[str]]:
    """Knots of transactions, and what was not judged. `stands` says where sends stand that are not where they
    were told; `repeated` are values that were sent more than once."""
    at_us: dict[str, int] = {}
    writes: list[tuple[int, int, str, int]] = []
    unplaced = 0
    for index, transaction in enumerate(sends.transaction):
        if not sends.committed[index] or sends.value[index] in repeated:
            continue
        at_us[transaction] = max(at_us.get(transaction, -1), sends.at_us[index])
        row = sends.row[index]
        told = sends.offset[index] if sends.told[index] else -1
        place = stands.get(row, told)
        unplaced += place < 0
        writes.append((sends.part[index], place, transaction, sends.value[index]))
    unjudged = []
    if unplaced:
        unjudged.append(f"the order of {unplaced:,} sends in transactions: it is not known where they stand")
    edges = list(_edges(writes, reads, at_us))
    found: list[Finding] = []
    for reads_alone in (True, False):
        chosen = [edge for edge in edges if edge.kind == READ_EDGE] if reads_alone else edges
        for island in _islands(chosen, at_us):
            if len(island) > EDGES_MAX:
                what = "cycles of reads" if reads_alone else "cycles that need the order of writes"
                unjudged.append(
                    f"{what}: {len(island):,} dependencies of transactions lie in 1 stretches of time "
                    f"without a pause, of which {EDGES_MAX:,} can be held"
                )
                continue
            found += _knots(context, island, at_us, reads_alone=reads_alone)
    return found, unjudged


def _edges(
    writes: list[tuple[int, int, str, int]], reads: Steps, at_us: dict[str, int]
) -> Iterator[Dependency]:
    placed = sorted(write for write in writes if write[1] >= 0)
    for before, after in pairwise(placed):
        if before[0] == after[0] and before[2] != after[2]:
            yield Dependency(WRITES, after[0], before[2], before[1], after[2], after[1])
    wrote: dict[int, list[str]] = {}
    for _, _, transaction, value in writes:
        wrote.setdefault(value, []).append(transaction)
    for index, reader in enumerate(reads.transaction):
        if reader not in at_us:
            continue
        for writer in wrote.get(reads.value[index], ()):
            if writer != reader:
                offset = reads.offset[index]
                yield Dependency(READ_EDGE, reads.part[index], writer, offset, reader, offset)


def _islands(edges: Sequence[Dependency], at_us: dict[str, int]) -> Iterator[list[Dependency]]:
    """What no cycle leaves. Transactions of the same moment count as against the order in either direction,
    which makes islands larger than need be, and is right."""
    intervals = sorted(
        (at_us[edge.target], at_us[edge.source]) for edge in edges if at_us[edge.source] >= at_us[edge.target]
    )
    covered = list(merged(intervals))
    if not covered:
        return
    lows = np.array([low for low, _ in covered])
    highs = np.array([high for _, high in covered])
    inside: dict[int, dict[tuple[str, str, str], Dependency]] = {}
    for edge in edges:
        at = int(np.searchsorted(lows, at_us[edge.source], "right")) - 1
        if at < 0 or at_us[edge.source] > highs[at] or not lows[at] <= at_us[edge.target] <= highs[at]:
            continue
        # Of each pair one edge of a kind is enough to know that it is there.
        key = (edge.kind, edge.source, edge.target)
        kept = inside.setdefault(at, {})
        if key not in kept or _place(edge) < _place(kept[key]):
            kept[key] = edge
    for _, kept in sorted(inside.items()):
        yield list(kept.values())


def _place(edge: Dependency) -> tuple[int, int, int]:
    return edge.part, edge.source_offset, edge.target_offset


def _knots(
    context: Context, island: list[Dependency], at_us: dict[str, int], *, reads_alone: bool
) -> Iterator[Finding]:
    names = sorted({n for edge in island for n in (edge.source, edge.target)}, key=lambda n: (at_us[n], n))
    number = {name: index for index, name in enumerate(names)}
    edges = [Edge(number[e.source], number[e.target], e.kind, row) for row, e in enumerate(island)]
    for knot in knots(edges):
        if (knot.kind == READ_EDGE) != reads_alone:
            continue
        rows = [island[edge.row] for edge in knot.example]
        times = [at_us[names[member]] for member in knot.members]
        violated = knot.kind == READ_EDGE
        yield Finding(
            "write cycle" if knot.kind == WRITES else "circular information",
            VIOLATION if violated else NOTICE,
            rows[0].part,
            rows[0].target_offset,
            time_us=min(times),
            until_us=max(times),
            count=len(knot.members),
            detail=_words(context, rows, len(knot.members) - len(rows)),
        )


def _words(context: Context, cycle: list[Dependency], others: int) -> str:
    parts = [cycle[0].source]
    for row in cycle[:_SHOWN_MAX]:
        part = context.parts[row.part]
        place = f"{part.topic}-{part.partition}"
        if row.kind == WRITES:
            why = f"both wrote {place}: offsets {row.source_offset}, {row.target_offset}"
        else:
            why = f"which read {place} offset {row.target_offset}"
        parts.append(f"{row.target} ({why})")
    told = " → ".join(parts)
    if len(cycle) > _SHOWN_MAX:
        told += f" → … and {len(cycle) - _SHOWN_MAX} more"
    return f"{told}; {others} more transactions are tied up with these" if others else told
