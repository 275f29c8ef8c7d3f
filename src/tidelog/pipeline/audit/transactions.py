"""Transactions: which of those in doubt committed, and which depend on each other in a circle.

A transaction comes before another if it wrote right before it into a partition (ww), or if the other read
what it wrote (wr). One on a circle came before itself.

Rules of the file:

* Only transactions that committed: acknowledged, or in doubt and one of their values was seen somewhere.
* What transactions wrote and read comes to the driver as numbers; beyond `ROWS_MAX` of them cycles are not
  judged, and that is said. Where the ledger holds no transactions, nothing is looked at.
* Transactions are put on a line by the time when their outcome was known; edges against that order cover
  every cycle (`cycles.merged`). Only what lies in one island is looked at together.
* Reads alone are looked at by themselves, so that broken promises are found however many transactions
  interleave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.evidence.tables import LEDGER
from tidelog.narrate.phrasebook import Phrase, joined
from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.cycles import READS as READ_EDGE
from tidelog.pipeline.audit.cycles import WRITES, Edge, knots, merged
from tidelog.pipeline.audit.findings import NOTICE, VIOLATION, Finding
from tidelog.pipeline.audit.kernels.hashes import Words, among, flags, ints, text_hashes
from tidelog.pipeline.audit.kernels.ledger_piece import COLUMNS, OK, UNKNOWN, sends_of, value_keys
from tidelog.pipeline.audit.kernels.log_piece import SUMMED, final_rows
from tidelog.pipeline.audit.kernels.reads_piece import COLUMNS as READ_COLUMNS
from tidelog.pipeline.audit.kernels.tables import read_piece
from tidelog.pipeline.audit.pieces import Piece, TablePiece

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
        rows = final_rows(context, piece, SUMMED)
        if rows is None:
            return np.zeros(0, np.uint64)
        rows = rows.filter(rows["visible"])
        part, value = ints(rows["part"]), text_hashes(rows["value_id"])
    keys = value_keys(part[value != 0], value[value != 0])
    return np.unique(keys[among(keys, doubts.values)])


# ---------------------------------------------------------------- what they did


class Step(NamedTuple):
    """What a transaction sent, or read."""

    transaction: str
    part: int
    value: int
    """Partition and value, as one number."""
    offset: int
    """-1: it is not known."""
    at_us: int
    who: str
    text: str
    row: int
    """Its number in the trial."""
    committed: bool = True
    epoch: int | None = None


def steps_of(context: Context, piece: TablePiece) -> tuple[str, list[Step]]:
    """Those of a piece of the ledger or of reads."""
    columns = COLUMNS if piece.table == LEDGER.name else READ_COLUMNS
    table = read_piece(context.place, piece, (*columns, "transaction"))
    inside = ~flags(table["transaction"].is_null())
    if piece.table == LEDGER.name:
        sends = sends_of(context, table)
        rows = np.flatnonzero(sends.known & inside)
        part, value, offset = sends.part, sends.value, np.where(sends.placed, sends.offset, -1)
        at_us = np.where(sends.settled < 0, sends.sent, sends.settled)
        who, committed, epoch = table["producer"], (sends.outcome[rows] == OK).tolist(), [None] * len(rows)
    else:
        part, value, offset = context.numbers(table), text_hashes(table["value"]), ints(table["offset"])
        rows = np.flatnonzero((part >= 0) & (value != 0) & inside)
        at_us, who, committed = ints(table["read_us"]), table["consumer"], [True] * len(rows)
        epoch = table["leader_epoch"].take(pa.array(rows)).to_pylist()
    texts = (
        column.take(pa.array(rows)).cast(pa.string()).to_pylist()
        for column in (table["transaction"], who, table["value"])
    )
    transaction, named, text = texts
    numbers = (part[rows], value_keys(part[rows], value[rows]), offset[rows], at_us[rows])
    row = ((piece.number << 32) | rows).tolist()
    listed = (transaction, *(each.tolist() for each in numbers), named, text, row, committed, epoch)
    return piece.table, list(map(Step, *listed))


def its_own(sends: Sequence[Step], reads: Sequence[Step]) -> Iterator[Finding]:
    """What a transaction read of itself: it had not committed yet."""
    sent = {(send.transaction, send.value) for send in sends}
    first: dict[tuple[int, str, str, str], Step] = {}
    for read in reads:
        place = (read.part, read.text, read.transaction, read.who)
        known = first.get(place)
        if (read.transaction, read.value) in sent and (known is None or read.at_us < known.at_us):
            first[place] = read
    for (part, value, transaction, consumer), read in sorted(first.items()):
        yield Finding(
            "precommitted read",
            VIOLATION,
            part,
            read.offset,
            read.epoch,
            value,
            consumer=consumer,
            time_us=read.at_us,
            detail=Phrase.of("detail.read_its_own", consumer=consumer, transaction=transaction),
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

    @property
    def place(self) -> tuple[int, int, int]:
        return self.part, self.source_offset, self.target_offset


def circles(
    context: Context, sends: Sequence[Step], reads: Sequence[Step], real_offset: dict[int, int]
) -> tuple[list[Finding], list[Phrase]]:
    """Knots of transactions; and what was not judged, and why. `real_offset` has the offsets of sends that
    are not where they were acknowledged. Values that were sent more than once have no place."""
    sent = Counter(send.value for send in sends)
    at_us: dict[str, int] = {}
    writes: list[tuple[int, int, str, int]] = []
    unplaced = 0
    for send in sends:
        if not send.committed or sent[send.value] > 1:
            continue
        at_us[send.transaction] = max(at_us.get(send.transaction, -1), send.at_us)
        place = real_offset.get(send.row, send.offset)
        unplaced += place < 0
        writes.append((send.part, place, send.transaction, send.value))
    unjudged = []
    if unplaced:
        unjudged.append(Phrase.of("unjudged.unplaced_in_transactions", count=unplaced))
    edges = list(_edges(writes, reads, at_us))
    found: list[Finding] = []
    for reads_alone in (True, False):
        chosen = [edge for edge in edges if edge.kind == READ_EDGE] if reads_alone else edges
        for island in _islands(chosen, at_us):
            if len(island) > EDGES_MAX:
                key = "unjudged.cycles_of_reads" if reads_alone else "unjudged.cycles_of_writes"
                unjudged.append(Phrase.of(key, dependencies=len(island), most=EDGES_MAX))
                continue
            found += _knots(context, island, at_us, reads_alone=reads_alone)
    return found, unjudged


def _edges(
    writes: list[tuple[int, int, str, int]], reads: Sequence[Step], at_us: dict[str, int]
) -> Iterator[Dependency]:
    placed = sorted(write for write in writes if write[1] >= 0)
    for before, after in pairwise(placed):
        if before[0] == after[0] and before[2] != after[2]:
            yield Dependency(WRITES, after[0], before[2], before[1], after[2], after[1])
    wrote: dict[int, list[str]] = {}
    for _, _, transaction, value in writes:
        wrote.setdefault(value, []).append(transaction)
    for read in reads:
        for writer in wrote.get(read.value, ()) if read.transaction in at_us else ():
            if writer != read.transaction:
                yield Dependency(READ_EDGE, read.part, writer, read.offset, read.transaction, read.offset)


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
        if key not in kept or edge.place < kept[key].place:
            kept[key] = edge
    for _, kept in sorted(inside.items()):
        yield list(kept.values())


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
            detail=_told(context, rows, len(knot.members) - len(rows)),
        )


def _told(context: Context, cycle: list[Dependency], others: int) -> Phrase:
    parts = [Phrase.of("detail.value", value=cycle[0].source)]
    for row in cycle[:_SHOWN_MAX]:
        part = context.parts[row.part]
        place = f"{part.topic}-{part.partition}"
        key = "detail.both_wrote" if row.kind == WRITES else "detail.which_read"
        offsets = {"first": row.source_offset, "second": row.target_offset}
        parts.append(Phrase(key, {"transaction": row.target, "partition": place, **offsets}))
    if len(cycle) > _SHOWN_MAX:
        parts.append(Phrase.of("detail.more_of_cycle", count=len(cycle) - _SHOWN_MAX))
    told = joined(parts, "detail.before")
    return Phrase.of("detail.tied_up", cycle=told, count=others) if others else told
